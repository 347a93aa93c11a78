package sqlitelock

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	if err := ctx.Err(); err != nil {
		return driver.Ticket{}, err
	}
	ts := &s.d.tickets
	attending, sure := false, false
	var pauses backoff.Backoff
	for {
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
			if sure && got.Proof != 0 {
				return got, nil
			}
			// It was held before this call, and may have been taken away; or it has
			// just begun to hold for a fixed time, which the file knows.
			err := s.d.look(ctx, []*ticket{mine})
			if sure = err == nil; !sure {
				err = s.d.outlast(ctx, err, &pauses)
			}
			if err != nil {
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
			attending, sure = true, true // what comes now is news
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
