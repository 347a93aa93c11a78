package sqlitelock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

// Driver is a client of one file.
type Driver struct {
	file      *file
	clock     fileClock
	exchanges atomic.Uint64
	closed    atomic.Bool
	opened    atomic.Int64 // sessions ever opened, as far as seen

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // what goes on in the background

	post    *post
	bells   bells
	alarm   alarm
	vigil   vigil
	poll    poll
	chores  chores
	tickets tickets // its lock also guards what changes of sessions

	mu        sync.Mutex
	sessions  map[int64]*session
	addresses map[int64]address // of sessions of all drivers
}

var _ driver.Driver = (*Driver)(nil)

func openDriver(ctx context.Context, path string, c config) (*Driver, error) {
	clock, err := newFileClock()
	if err != nil {
		return nil, driver.Permanent(err)
	}
	f, err := openFile(ctx, path, c)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		file:      f,
		clock:     clock,
		tickets:   newTickets(),
		sessions:  map[int64]*session{},
		addresses: map[int64]address{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.alarm.d, d.vigil.d, d.poll.d = d, d, d
	d.post = openPost(f.folder, d.open, d.abandoned)
	if err := d.afterBoot(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := d.checkNames(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// checkNames refuses a file that names other files than its own.
func (d *Driver) checkNames(ctx context.Context) error {
	return d.view(ctx, func(c conn, _ moment) error {
		if _, err := c.peers("SELECT sid, id FROM session"); err != nil {
			return err
		}
		var wrong error
		err := c.all("SELECT post FROM session UNION SELECT post FROM watch", func(s *sqlite.Stmt) bool {
			wrong = checkPost(s.ColumnText(0))
			return wrong == nil
		})
		if err == nil {
			err = wrong
		}
		return err
	})
}

// afterBoot ends what did not survive a reboot, and sets the moments of what did
// by the wall clock.
func (d *Driver) afterBoot(ctx context.Context) error {
	return d.change(ctx, fast, func(t *tx) error {
		boot := ""
		if _, err := t.one("SELECT boot FROM file", func(s *sqlite.Stmt) { boot = s.ColumnText(0) }); err != nil || boot == d.clock.boot {
			return err
		}
		for _, sql := range []string{
			"UPDATE session SET expires = 0",
			"DELETE FROM watch",
		} {
			if err := t.exec(sql); err != nil {
				return err
			}
		}
		wall := time.Now().UnixNano()
		if err := t.exec("UPDATE ticket SET since = since + ?1 + wall - ends, ends = wall + ?1 WHERE flags & ?2", int64(t.now)-wall, fixed); err != nil {
			return err
		}
		return t.exec("UPDATE file SET boot = ?", d.clock.boot)
	})
}

func (d *Driver) Now() driver.Instant { return driver.Now() }

func (d *Driver) Exchanges() uint64 { return d.exchanges.Load() }

func (d *Driver) Close() error {
	d.mu.Lock()
	closed := d.closed.Swap(true)
	d.mu.Unlock()
	if closed {
		return nil
	}
	d.cancel()
	close(d.file.closing)
	d.vigil.close()
	d.alarm.stop()
	d.post.close()
	d.work.Wait()

	// Whoever is in an exchange finishes it; the next ones see that it is closed.
	d.file.turn.close()
	d.file.reading <- struct{}{}
	d.file.close()
	<-d.file.reading

	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		s.life.close()
	}
	return nil
}

// background does something that Close waits for; false if the driver is closed.
func (d *Driver) background(f func(context.Context)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return false
	}
	d.work.Go(func() { f(d.ctx) })
	return true
}

// address finds out where a session is reached; the zero address if it is over.
func (t *tx) address(sid int64) (a address, err error) {
	d := t.d
	d.mu.Lock()
	a, ok := d.addresses[sid]
	d.mu.Unlock()
	if ok {
		return a, nil
	}
	ok, err = t.one("SELECT post, id FROM session WHERE sid = ?", func(s *sqlite.Stmt) {
		a = address{s.ColumnText(0), s.ColumnText(1)}
	}, sid)
	if err == nil && ok {
		err = a.check()
	}
	if err != nil || !ok {
		return address{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.addresses) > 10_000 {
		clear(d.addresses)
	}
	d.addresses[sid] = a
	return a, nil
}

// session finds a session of this driver.
func (d *Driver) session(sid int64) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[sid]
}
