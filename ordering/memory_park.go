package ordering

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// memoryParking is a [Parking] with its streams in a map.
//
// Invariant: it has at least one stream, and is the parking of each of them.
type memoryParking struct {
	Parking // but for Streams
	streams map[lockkeys.Key]ParkedStream
}

// publicLocked returns the parking in its public form.
func (p *memoryParking) publicLocked(c *memoryConsumer) Parking {
	public := p.Parking
	public.Events = slices.Clone(p.Events)
	for _, key := range slices.SortedFunc(maps.Keys(p.streams), lockkeys.Key.Compare) {
		stream := p.streams[key]
		stream.Waiting = c.streams[key].held
		public.Streams = append(public.Streams, stream)
	}
	return public
}

// Park implements [Term].
func (t *memoryTerm) Park(ctx context.Context, parkings []Parking, fences Fences) error {
	for i := range parkings {
		if err := parkings[i].Validate(); err != nil {
			return err
		}
	}
	c, err := t.begin(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	for _, p := range parkings {
		for _, position := range p.Streams {
			if _, err := c.heldByLocked(fences[position.Stream], position.Stream); err != nil {
				return err
			}
		}
	}
	for _, p := range parkings {
		c.parkLocked(p)
	}
	return nil
}

func (c *memoryConsumer) parkLocked(p Parking) {
	parking := c.parkings[p.ID]
	if parking == nil {
		parking = &memoryParking{streams: make(map[lockkeys.Key]ParkedStream, len(p.Streams))}
		c.parkings[p.ID] = parking
	}
	parking.Parking = p
	parking.Streams, parking.Events = nil, make([]HeldEvent, len(p.Events))
	for i, h := range p.Events {
		parking.Events[i] = h.AsOutline()
	}
	for _, position := range p.Streams {
		st := c.streamLocked(position.Stream)
		if other := st.parking; other != nil && other != parking {
			delete(other.streams, position.Stream)
			if len(other.streams) == 0 {
				delete(c.parkings, other.ID)
			}
		}
		st.parking = parking
		parking.streams[position.Stream] = position
	}
	for _, h := range p.Events {
		if id := c.heldLocked(h.Positions); id > 0 {
			c.held[id] = HeldEvent{Event: c.held[id].Event, Attempts: h.Attempts, Started: h.Started}
		} else if !h.Outline {
			c.holdLocked(h)
		}
		delete(c.marks, MarkOf(h.Positions, h.ID))
		at := firstOf(h.Positions)
		if job, ok := c.jobs[at.place()]; p.Error != "" && (!ok || job.Status == StatusParked) {
			c.jobs[at.place()] = h.Failed(&p)
		}
	}
}

// Unpark implements [Term].
func (t *memoryTerm) Unpark(ctx context.Context, ids []string, fences Fences) error {
	c, err := t.begin(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	for key, fence := range fences {
		if _, err := c.heldByLocked(fence, key); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if p := c.parkings[id]; p != nil {
			for key := range p.streams {
				if _, err := c.heldByLocked(fences[key], key); err != nil {
					return err
				}
			}
		}
	}
	for _, id := range ids {
		c.unparkLocked(id)
	}
	return nil
}

func (c *memoryConsumer) unparkLocked(id string) {
	p := c.parkings[id]
	if p == nil {
		return
	}
	for key := range p.streams {
		c.streams[key].parking = nil
	}
	delete(c.parkings, id)
}

// Parked implements [Reader].
func (r memoryReader) Parked(ctx context.Context, ids ...string) ([]Parking, error) {
	c, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer r.leave()
	var list []Parking
	if len(ids) == 0 {
		ids = slices.Collect(maps.Keys(c.parkings))
	}
	for _, id := range ids {
		if p := c.parkings[id]; p != nil {
			list = append(list, p.publicLocked(c))
		}
	}
	slices.SortFunc(list, func(a, b Parking) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// parkedEventsLocked returns the places of job states of the events of all
// parkings.
func (c *memoryConsumer) parkedEventsLocked() map[place]bool {
	places := map[place]bool{}
	for _, p := range c.parkings {
		for _, h := range p.Events {
			places[firstOf(h.Positions).place()] = true
		}
	}
	return places
}
