package backup

import (
	"fmt"
	"slices"
	"time"
)

// Channel is one of the ways that events take.
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

// Stats is what a publisher does and has done.
type Stats struct {
	// Active is the channel that events take. While it is the primary, single
	// events may still go to the backup.
	Active Channel
	// Since is when it became that.
	Since time.Time
	// Breaker is the state of the primary's breaker: "closed" while it is
	// used, "open" while it is left alone, "half-open" while single events try
	// it.
	Breaker string

	Primary uint64 // events that the primary has confirmed
	Backup  uint64 // events that the backup has confirmed
	Failed  uint64 // attempts that neither has confirmed
	Resent  uint64 // events of the first kind that the backup has confirmed too
	// ResentInVain are events of the first kind that the receiver at the
	// backup's end refuses, whenever they are sent: the log names them.
	ResentInVain uint64

	// Switches is how often the active channel has changed. An outage is
	// noticed by the first event after it, or at once with
	// [PublisherConfig.Resend] and Alive.
	Switches uint64
	// Recent are the latest switches, 32 at most, the latest last.
	Recent []Switch
}

// Switch is a change of the active channel.
type Switch struct {
	Time  time.Time
	To    Channel
	Cause error // nil for a switch to the primary
}

// maxRecent is how many switches are kept.
const maxRecent = 32

// Stats returns what the publisher does and has done.
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

// switchTo makes a channel the active one, by what an attempt has found out.
// Attempts that began before another switch know nothing new.
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
		p.cfg.Logger.Warn("backup: events go to the backup channel", "error", cause)
		if p.resender != nil {
			p.resender.start()
		}
	} else {
		p.cfg.Logger.Info("backup: events go to the primary channel again", "after", lasted, "events_by_backup", byBackup)
	}
}
