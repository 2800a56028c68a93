package scrape_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// alertCase is what an alert is for. Series have a value every 15 s, in promtool's notation:
// "0 1x3" is 0, 1, 1, 1, 1, and "0+2x3" is 0, 2, 4, 6.
type alertCase struct {
	at       string // when to look, from the beginning
	trouble  series // it fires
	with     labels // these, besides those of its target
	says     string // its summary
	severity string
	runbook  string   // the section
	well     []series // it never fires
}

type (
	series map[string]string // values by metric and labels
	labels map[string]string
)

var alertCases = map[string]alertCase{
	"InterlockStopped": {
		at:       "1m",
		trouble:  series{`interlock_stopped{interlock_reason="taken_over"}`: "0 0 1x10", `interlock_stopped{interlock_reason="failure"}`: "0x10"},
		with:     labels{"interlock_reason": "taken_over"},
		says:     "payments has stopped: taken_over.",
		severity: "critical", runbook: "stopped",
		well: []series{{`interlock_stopped{interlock_reason="taken_over"}`: "0x10", `interlock_stopped{interlock_reason="failure"}`: "0x10"}},
	},
	"InterlockStalled": {
		at:       "4m",
		trouble:  dispatcher("7x20", "0", "3x20", "5x20"),
		says:     "Messages wait in payments, and nothing has begun or ended for a minute.",
		severity: "critical", runbook: "stalled",
		well: []series{
			dispatcher("7+1x20", "0", "3x20", "5+1x20"),
			dispatcher("7x20", "0", "3x20", "5+1x20"), // held ones end
			dispatcher("7x20", "0", "0x20", "5x20"),   // nothing is to be done
			dispatcher("7+1x20", "0", "3x20", "5x20"), // what fails is tried again
			dispatcher("7+1x5 12x6 13+1x20", "0", "3x30", "5+1x5 10x6 11+1x20"),
		},
	},
	"InterlockParked": {
		at:       "3m",
		trouble:  series{`interlock_parked_messages`: "0 2x20"},
		says:     "2 parked in payments: an operator must decide.",
		severity: "warning", runbook: "parked",
		well: []series{{`interlock_parked_messages`: "0x20"}, {`interlock_parked_messages`: "0x9 1x2 0x10"}},
	},
	"InterlockParkedLong": {
		at:       "2m",
		trouble:  series{`interlock_parked_age_seconds`: "3595+15x20"},
		says:     "Something in payments has been parked for more than an hour.",
		severity: "critical", runbook: "parked",
		well: []series{{`interlock_parked_age_seconds`: "0x20"}, {`interlock_parked_age_seconds`: "1800+15x20"}},
	},
	"InterlockRefused": {
		at:       "3m",
		trouble:  series{`interlock_dispatcher_refused_total`: "4x5 5x20"},
		says:     "payments refuses messages: MaxParked is reached.",
		severity: "critical", runbook: "refused",
		well: []series{{`interlock_dispatcher_refused_total`: "0x20"}, {`interlock_dispatcher_refused_total`: "4x20"}},
	},
	"InterlockWindowFull": {
		at:       "7m",
		trouble:  series{`interlock_dispatcher_window_utilization_ratio`: "0.5 1x40"},
		says:     "All of the look-ahead window of payments is blocked, so unrelated messages wait.",
		severity: "warning", runbook: "window-full",
		well: []series{{`interlock_dispatcher_window_utilization_ratio`: "0.99x40"}, {`interlock_dispatcher_window_utilization_ratio`: "1x12 0.5 1x12 0.5"}},
	},
	"InterlockGap": {
		at:       "7m",
		trouble:  series{`interlock_sequencer_gaps_open`: "0 3x40"},
		says:     "3 streams of payments wait for numbers that do not come.",
		severity: "warning", runbook: "gap",
		well: []series{{`interlock_sequencer_gaps_open`: "0x40"}, {`interlock_sequencer_gaps_open`: "1x15 0 1x15 0"}},
	},
	"InterlockConflict": {
		at:       "5m",
		trouble:  series{`interlock_sequencer_conflicts_total`: "2x10 3x20"},
		says:     "A producer of payments has used a number twice.",
		severity: "critical", runbook: "conflict",
		well: []series{{`interlock_sequencer_conflicts_total`: "0x30"}, {`interlock_sequencer_conflicts_total`: "2x30"}},
	},
	"InterlockStoreErrors": {
		at:       "5m",
		trouble:  series{`interlock_sequencer_store_errors_total`: "0x5 1+1x20"},
		says:     "The store of payments fails or is away.",
		severity: "critical", runbook: "store-errors",
		well: []series{{`interlock_sequencer_store_errors_total`: "7x30"}, {`interlock_sequencer_store_errors_total`: "0x5 1 2x30"}},
	},
	"InterlockUnsent": {
		at:       "5m",
		trouble:  series{`interlock_outbox_age_seconds`: "0+15x20"},
		says:     "The oldest event in payments has not been sent for 5m 0s.",
		severity: "critical", runbook: "unsent",
		well: []series{{`interlock_outbox_age_seconds`: "0x20"}, {`interlock_outbox_age_seconds`: "30x20"}, {`interlock_outbox_age_seconds`: "90x6 0x10"}},
	},
	"InterlockLag": {
		at:       "20m",
		trouble:  series{`interlock_projection_lag{messaging_destination_partition_id="0"}`: "10+10x80"},
		with:     labels{"messaging_destination_partition_id": "0"},
		says:     "The read model payments falls behind: 810 entries.",
		severity: "warning", runbook: "lag",
		well: []series{
			{`interlock_projection_lag{messaging_destination_partition_id="0"}`: "1000-10x80"},         // it catches up
			{`interlock_projection_lag{messaging_destination_partition_id="0"}`: "0x40 10+10x48 0x20"}, // a busy quarter of an hour
		},
	},
	"InterlockNotConsuming": {
		at:       "4m",
		trouble:  series{`interlock_consumer_connected`: "1 0x20"},
		says:     "payments does not consume: its broker or queue is away.",
		severity: "critical", runbook: "not-consuming",
		well: []series{{`interlock_consumer_connected`: "1x20"}, {`interlock_consumer_connected`: "1x10 0x4 1x10"}},
	},
}

// dispatcher returns what a dispatcher tells of its work.
func dispatcher(attempts, queued, waiting, succeeded string) series {
	return series{
		`interlock_dispatcher_attempts_total`:                                attempts,
		`interlock_dispatcher_messages{interlock_state="queued"}`:            queued + "x20",
		`interlock_dispatcher_messages{interlock_state="waiting"}`:           waiting,
		`interlock_dispatcher_messages{interlock_state="ready"}`:             "0x20",
		`interlock_dispatcher_messages{interlock_state="running"}`:           "8x20",
		`interlock_dispatcher_finished_total{interlock_outcome="failed"}`:    "0x20",
		`interlock_dispatcher_finished_total{interlock_outcome="succeeded"}`: succeeded,
	}
}

// input returns the series with the labels of their target, for promtool.
func (s series) input() (list []map[string]string) {
	const target = `job="shop",instance="shop:1",interlock_name="payments"`
	for name, values := range s {
		name = regexp.MustCompile(`^([a-z_]+)\{?`).ReplaceAllString(name, "$1{"+target+",")
		if name[len(name)-1] == ',' {
			name += "}"
		}
		list = append(list, map[string]string{"series": name, "values": values})
	}
	return list
}

// TestEachAlert: promtool finds that each rule fires on the series that it is for, with the
// labels and texts that one expects, and on none in which all is well. A rule without a case
// fails the test.
func TestEachAlert(t *testing.T) {
	rules, err := filepath.Abs("alerts.yml")
	require.NoError(t, err)
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	for _, rule := range regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(text, -1) {
		c, tested := alertCases[string(rule[1])]
		if assert.True(t, tested, "%s has no case", rule[1]) {
			assert.NotEmpty(t, c.trouble, "%s: nothing fires it", rule[1])
			assert.NotEmpty(t, c.well, "%s: nothing is well", rule[1])
		}
	}
	var tests []any
	test := func(alert string, s series, times []string, fires ...any) {
		var looks []any
		for _, at := range times {
			looks = append(looks, map[string]any{"eval_time": at, "alertname": alert, "exp_alerts": fires})
		}
		tests = append(tests, map[string]any{"interval": "15s", "input_series": s.input(), "alert_rule_test": looks})
	}
	var always []string
	for at := time.Duration(0); at <= 30*time.Minute; at += 30 * time.Second {
		always = append(always, at.String())
	}
	for alert, c := range alertCases {
		with := labels{"job": "shop", "instance": "shop:1", "interlock_name": "payments", "severity": c.severity}
		for name, value := range c.with {
			with[name] = value
		}
		test(alert, c.trouble, []string{c.at}, map[string]any{"exp_labels": with,
			"exp_annotations": labels{"summary": c.says, "runbook": "dispatcher/OPERATING.md#" + c.runbook}})
		for _, s := range c.well {
			test(alert, s, always)
		}
	}
	all, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "15s", "tests": tests}) // JSON is YAML
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "test.yml")
	require.NoError(t, os.WriteFile(file, all, 0o600))
	out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput()
	require.NoError(t, err, string(out))
}
