package dispatcher

import (
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// name returns the name of m from Config.Name, or "" if that is not set. The
// mutex must not be held.
func (d *Dispatcher[M]) name(m M) (name string) {
	if d.cfg.Name == nil {
		return ""
	}
	if d.apart(func() error { name = d.cfg.Name(m); return nil }) != nil {
		return "(Config.Name panicked)"
	}
	return name
}

// about returns the attributes of a message for a log record.
func (d *Dispatcher[M]) about(id uint64, m M, claim []lockkeys.Request) []any {
	attrs := []any{"claim", claimText(claim), "id", id}
	if name := d.name(m); name != "" {
		attrs = append([]any{"message", name}, attrs...)
	}
	return attrs
}

// describe names a message in an error: "deposit 17 [client/42]".
func describe(name string, claim []lockkeys.Request) string {
	switch {
	case name == "":
		return claimText(claim)
	case len(claim) == 0:
		return name
	}
	return name + " " + claimText(claim)
}

// claimText lists the requests of a claim, or the first of very many.
func claimText(claim []lockkeys.Request) string {
	const most = 8
	if len(claim) == 0 {
		return "without keys"
	}
	var texts []string
	for _, r := range claim[:min(len(claim), most)] {
		texts = append(texts, r.String())
	}
	if len(claim) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(claim)-most))
	}
	return "[" + strings.Join(texts, " ") + "]"
}
