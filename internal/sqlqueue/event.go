package sqlqueue

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
