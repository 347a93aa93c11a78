//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/flock"
)

// tx is a transaction: one row is read, changed, and written, alone.
type tx struct {
	exchange *rows.Exchange
	s        *store
	file     *rowFile
	now      time.Time      // by the clock of the rows
	sent     driver.Instant // not after now: what is proven from then on ends no sooner for all others
	fresh    bool           // there was no row
	size     int            // of the row
	rebooted bool           // the row was written before the machine was booted
	durable  bool           // the row outlasts a power loss
	useless  bool           // the file of the row is to be removed
}

// row is what a file has: its fields are read and written by a codec.
type row interface{ fields(c *rows.Codec) }

// transact makes a transaction. Its events are sent when the row is written.
func (s *store) transact(ctx context.Context, folder, file string, r row, f func(x *tx) error) error {
	if !s.begin() {
		return errClosed
	}
	defer s.transactions.Done()
	x := &tx{exchange: &rows.Exchange{}, s: s, file: s.dir.use(folder, file)}
	defer s.dir.leave(x.file)
	if err := x.file.lock(ctx, s); err != nil {
		return err
	}
	s.exchanges.Add(1)
	err := x.run(r, f)
	x.file.unlock()
	for _, ev := range x.exchange.Events {
		s.post(ev.Mailbox, ev.Event)
	}
	return err
}

func (x *tx) run(r row, f func(x *tx) error) error {
	text, err := x.file.read(x.s.boot)
	if err == nil && text != nil {
		c := rows.Codec{In: string(text), Reads: true}
		r.fields(&c)
		err = c.Err
	}
	if q, ok := r.(*queue); ok && q.anew && errors.Is(err, rows.ErrDamaged) {
		if err = x.file.file.Truncate(0); err == nil {
			text, err = x.file.read(x.s.boot)
		}
	}
	if errors.Is(err, rows.ErrDamaged) {
		cure := "remove the file"
		if x.file.folder == queues && x.file.name != floorFile {
			cure = "write it anew: interlock admin raise-token NAME"
		}
		return driver.Permanent(fmt.Errorf("%s is damaged: end the programs that use it, and %s: %w", x.file.path, cure, err))
	}
	if err != nil {
		return err
	}
	x.fresh, x.size = text == nil, len(text)
	x.rebooted = !x.fresh && x.file.head(x.file.row).boot != x.s.boot
	x.sent = driver.Now()
	x.now = time.Unix(0, x.s.clock.At(x.sent))
	err = f(x)
	var written error
	switch {
	case x.useless:
		_ = x.file.root.Remove(x.file.name) // it may be another user's, and harms none
	case x.exchange.Changed:
		c := rows.Codec{Out: append(x.file.out[:0], make([]byte, headSize)...)}
		r.fields(&c)
		x.file.out = c.Out
		if written = c.Err; len(c.Out) > maxRow {
			written = rows.ErrTooLong
		}
		if written == nil {
			written = x.file.write(c.Out, x.s.boot, x.durable)
		}
	}
	if written != nil {
		x.exchange.Events, err = nil, errors.Join(written, err)
	}
	return err
}

// lock waits until no other transaction uses the row. Another process may stop while it has the
// lock, so that it asks again and again, and ends with ctx.
func (r *rowFile) lock(ctx context.Context, s *store) error {
	select {
	case r.gate <- struct{}{}:
	default: // a context may make its channel when it is asked for it
		select {
		case r.gate <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return errClosed
		}
	}
	for n, pause := 0, 20*time.Microsecond; ; n++ {
		locked, err := r.handle.lock(s.dir, flock.Try)
		err = cmp.Or(err, ctx.Err(), context.Cause(s.ctx))
		switch {
		case err != nil:
			if locked {
				_ = flock.Unlock(r.file)
			}
			<-r.gate
			return err
		case locked:
			return nil
		case n < 10: // most transactions are that short
			runtime.Gosched()
		default:
			time.Sleep(pause)
			pause = min(2*pause, 2*time.Millisecond)
		}
	}
}

func (r *rowFile) unlock() {
	_ = flock.Unlock(r.file)
	if cap(r.long) > keptRoom {
		r.long, r.out = nil, nil
	}
	<-r.gate
}

// keptRoom is how much memory a row keeps for the next transaction.
const keptRoom = 1 << 20

var errClosed = driver.Permanent(errors.New("file: the driver is closed"))
