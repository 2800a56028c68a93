package backup

import (
	"fmt"
	"slices"
	"time"
)

// Channel identifies one of the two channels.
type Channel uint8

// Channels.
const (
	// Primary is that of [PublisherConfig.Primary].
	Primary Channel = iota + 1
	// Backup is that of [PublisherConfig.Backup].
	Backup
)

// String returns "primary" or "backup".
func (c Channel) String() string {
	switch c {
	case Primary:
		return "primary"
	case Backup:
		return "backup"
	}
	return fmt.Sprintf("Channel(%d)", uint8(c))
}

// Stats describes a publisher's state, and counts what it has done.
type Stats struct {
	// Active is the channel in use. While it is the primary, single events may
	// still go to the backup.
	Active Channel
	// Since is when it became active.
	Since time.Time
	// Breaker is the state of the primary's breaker: "closed" while the primary
	// is used, "open" while it is not tried, "half-open" while single events try
	// it.
	Breaker string

	Primary uint64 // events confirmed by the primary
	Backup  uint64 // events confirmed by the backup
	Failed  uint64 // attempts that neither has confirmed
	Resent  uint64 // events confirmed by the primary, and by the backup when sent again
	// ResentInVain counts events confirmed by the primary that the receiver of
	// the backup refuses: the log names them.
	ResentInVain uint64

	// Switches is the number of changes of the active channel. An outage is
	// noticed by the first event after it, or at once with
	// [PublisherConfig.Resend] and Alive.
	Switches uint64
	// Recent has the latest 32 switches, the latest last.
	Recent []Switch
}

// Switch is a change of the active channel.
type Switch struct {
	Time  time.Time
	To    Channel
	Cause error // nil for a switch to the primary
}

// maxRecent is the number of switches kept.
const maxRecent = 32

// Stats returns the state and the counts at this moment.
func (p *Publisher) Stats() Stats {
	breaker := p.breaker.State().String()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.mu.stats
	s.Breaker, s.Recent = breaker, slices.Clone(s.Recent)
	return s
}

// count adds one to a count of mu.stats.
func (p *Publisher) count(n *uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
}

func (p *Publisher) switches() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.stats.Switches
}

func (p *Publisher) active() Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.stats.Active
}

// switchTo makes a channel the active one, after an attempt that began at the
// switch number began. Attempts that began before another switch are ignored.
func (p *Publisher) switchTo(to Channel, cause error, began uint64) {
	now := time.Now()
	p.mu.Lock()
	s := &p.mu.stats
	if s.Active == to || s.Switches != began {
		p.mu.Unlock()
		return
	}
	lasted, byBackup := now.Sub(s.Since), s.Backup-p.mu.atSince
	s.Active, s.Since, p.mu.atSince = to, now, s.Backup
	s.Switches++
	s.Recent = append(s.Recent, Switch{now, to, cause})
	if len(s.Recent) > maxRecent {
		s.Recent = slices.Delete(s.Recent, 0, 1)
	}
	p.mu.Unlock()
	if to == Backup {
		p.cfg.Logger.Warn("backup: events go to the backup channel", "err", cause)
		if p.resender != nil {
			p.resender.start()
		}
	} else {
		p.cfg.Logger.Info("backup: events go to the primary channel again", "after", lasted, "events_by_backup", byBackup)
	}
}
