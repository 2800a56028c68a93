package ordering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/lockkeys"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// ev makes an event from its ID and its positions in header form.
func ev(id, positions string) *Event {
	list, err := ParseSequenceID(positions, lockkeys.Root())
	if err != nil {
		panic(err)
	}
	return &Event{ID: id, Positions: list}
}

// series makes events first to last of a stream: "a1", "a2" and so on.
func series(stream string, first, last int) (events []*Event) {
	for n := first; n <= last; n++ {
		events = append(events, ev(fmt.Sprintf("%s%d", stream, n), fmt.Sprintf("%s=%d", stream, n)))
	}
	return events
}

// begin begins a term on a store beside those of sequencers.
func begin(t require.TestingT, store Store) Term {
	term, err := store.Begin(context.Background(), Consumer{Partition: "of a test"})
	require.NoError(t, err)
	return term
}

// rig is a sequencer with a record of what it did.
type rig struct {
	t     *testing.T
	store Store
	seq   *Sequencer[*Event]

	mu       sync.Mutex
	given    map[string]bool     // IDs, if offered by give
	runs     []string            // IDs, when their handlers ended well
	outcomes map[string][]Result // by ID, in order
	notices  []Notice
	fail     map[string]error // what handlers of these IDs return
	gates    map[string]chan struct{}
}

// story runs a test in virtual time, on a store in memory.
func story(t *testing.T, cfg Config[*Event], tell func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		r.start(cfg)
		tell(t, r)
		r.stop()
	})
}

func newRig(t *testing.T, store Store) *rig {
	return &rig{t: t, store: store, given: map[string]bool{}, outcomes: map[string][]Result{}, fail: map[string]error{}, gates: map[string]chan struct{}{}}
}

func (r *rig) start(cfg Config[*Event]) {
	r.t.Helper()
	cfg.Store, cfg.Observer = r.store, r.observe
	if cfg.Handler == nil {
		cfg.Handler = r.handle
	}
	if cfg.Dispatcher.MaxAttempts == 0 {
		cfg.Dispatcher.MaxAttempts = 1
	}
	seq, err := New(r.t.Context(), cfg)
	require.NoError(r.t, err)
	r.seq = seq
}

func (r *rig) stop() {
	r.t.Helper()
	require.NoError(r.t, r.seq.Close())
}

func (r *rig) handle(ctx context.Context, job Job[*Event]) error {
	r.mu.Lock()
	gate, err := r.gates[job.Event.ID], r.fail[job.Event.ID]
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, job.Event.ID)
	return nil
}

func (r *rig) observe(n Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notices = append(r.notices, n)
}

func (r *rig) done(e *Event, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[e.Name()] = append(r.outcomes[e.Name()], o.Result)
}

// gate makes the handler of an event wait until the function returned is
// called.
func (r *rig) gate(id string) (open func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gate := make(chan struct{})
	r.gates[id] = gate
	return func() { close(gate) }
}

func (r *rig) failing(id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail[id] = err
}

func (r *rig) offer(events ...*Event) {
	r.t.Helper()
	for _, e := range events {
		require.NoError(r.t, r.seq.Offer(r.t.Context(), e, r.done))
	}
	synctest.Wait()
}

// sleep lets virtual time pass.
func (r *rig) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) ran() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.runs...)
}

func (r *rig) outcome(id string) []Result {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Result{}, r.outcomes[id]...)
}

func (r *rig) kinds() (kinds []NoticeKind) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.notices {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

func (r *rig) parked() []Parking {
	synctest.Wait()
	list, err := r.seq.Parked(r.t.Context())
	require.NoError(r.t, err)
	return list
}

// known is what the store knows of the first of the positions.
func known(t *testing.T, store Store, positions string) NumberState {
	t.Helper()
	states, err := begin(t, store).Look(t.Context(), ev("", positions).Positions)
	require.NoError(t, err)
	return states[0]
}

// job is the job state of the event that has the first of the positions.
func job(t *testing.T, store Store, positions string) JobState {
	t.Helper()
	state := known(t, store, positions)
	require.NotNil(t, state.Job)
	return *state.Job
}

// archive is a replayer that has these events, and answers for numbers of
// streams that it has not.
type archive struct {
	mu     sync.Mutex
	events []*Event
	asked  []Range
	noSuch []Range
	err    error
}

func (a *archive) Replay(ctx context.Context, missing Range, deliver func(context.Context, []*Event) error) (Answer, error) {
	a.mu.Lock()
	a.asked = append(a.asked, missing)
	var found []*Event
	for _, e := range a.events {
		if p, _ := e.On(missing.Stream); missing.Has(p) {
			found = append(found, e)
		}
	}
	noSuch, err := a.noSuch, a.err
	a.mu.Unlock()
	return Answer{NoSuch: noSuch, Attempts: 1}, errors.Join(deliver(ctx, found), err)
}

func (a *archive) requests() []Range {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Range{}, a.asked...)
}

// pendingBytes is how much is on its way into the store.
func pendingBytes(s *Sequencer[*Event]) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, bytes := s.mu.core.Pending()
	return bytes
}
