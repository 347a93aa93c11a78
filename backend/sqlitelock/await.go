package sqlitelock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	if err := ctx.Err(); err != nil {
		return driver.Ticket{}, err
	}
	ts := &s.d.tickets
	for attending := false; ; attending = true {
		ts.mu.Lock()
		mine := ts.byID[t.ID]
		switch {
		case s.over:
			ts.mu.Unlock()
			return driver.Ticket{}, driver.ErrSession
		case mine == nil || mine.owner != s || mine.queue != t.Queue:
			ts.mu.Unlock()
			return driver.Ticket{}, driver.ErrGone
		case mine.state == held:
			got := mine.report()
			ts.mu.Unlock()
			if got.Proof != 0 {
				return got, nil
			}
			if err := s.d.look(ctx, []*ticket{mine}); err != nil { // how long it holds
				return driver.Ticket{}, err
			}
			continue
		}
		if mine.bell == nil {
			mine.bell = make(chan struct{})
		}
		bell := mine.bell
		ts.mu.Unlock()
		if !attending {
			defer s.d.attend()()
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return driver.Ticket{}, ctx.Err()
		case <-s.d.ctx.Done():
			return driver.Ticket{}, errClosed
		}
	}
}

// attend keeps the driver on the watch while somebody waits: for sessions that
// die, for what ends by itself and, if there are no messages, for changes of the
// file. Its result ends that.
func (d *Driver) attend() (leave func()) {
	d.vigil.attend(d.opened.Load())
	d.alarm.attend()
	d.poll.attend()
	return func() {
		d.poll.leave()
		d.alarm.leave()
	}
}
