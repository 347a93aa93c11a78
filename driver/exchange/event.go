package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// hear takes note of what the database has sent. It waits for nothing.
func (d *Driver) hear(e Event) {
	if e.What == Bell {
		d.background(func(ctx context.Context) { _ = d.repair(ctx, false) })
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.What {
	case QueueChanged:
		d.topics.QueueChanged(e.Queue)
	case CellChanged:
		d.topics.CellChanged(e.Cell)
	}
	p := d.places[e.ID]
	if p == nil {
		return
	}
	if t := e.Ticket.Token; e.Doubtful || e.What == Granted && (t == 0 || t >= driver.MaxToken) {
		d.doubted(p, e)
		return
	}
	switch e.What {
	case Granted:
		if p.hold > 0 && !p.fixed { // only the database knows since when
			p.fixed, p.proof = true, 0
		}
		p.isHeld(e.Ticket.Token, e.Ticket.Inherited)
		if e.Ticket.Wanted {
			p.signal(driver.Wanted)
		}
	case WaitsFirst:
		if p.state == waiting {
			p.lookAfter(Standing{Again: max(e.Ticket.Again, 1)})
		}
	case Asked:
		p.signal(e.Ask)
	case Removed:
		p.signal(driver.Evict)
		d.ended(p)
	}
}

// doubted takes an event for a reason to ask, and no more.
func (d *Driver) doubted(p *place, e Event) {
	switch {
	case p.state == unknown:
		d.repairs++ // its Join, which is under way, has it looked at
	case e.What != WaitsFirst:
		if d.ctx.Err() == nil { // else it is closed
			d.tasks.Go(func() { d.learn(p) })
		}
	case p.state == waiting:
		p.lookAfter(Standing{Again: 1})
	}
}

// learn asks the database what has become of a ticket, and tells its holder. If that fails, the
// next heartbeat does.
func (d *Driver) learn(p *place) {
	if !d.learning.Begin(p.id) {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, lookTimeout)
	defer cancel()
	for more := true; more; more = d.learning.More(p.id) {
		if p.s.look(ctx, p) != nil {
			d.learning.End(p.id)
			return
		}
		d.mu.Lock()
		if p.state == gone {
			p.signal(driver.Evict)
		}
		d.mu.Unlock()
	}
}
