//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/flock"
)

// tx is a transaction: one row is read, changed, and written, alone.
type tx struct {
	s        *store
	now      moment
	changed  bool // the row is to be written
	durable  bool // the row outlasts a power loss
	messages []message
}

// moment is a time of the rows, in nanoseconds: see fileclock.Clock.
type moment int64

func (m moment) add(d time.Duration) moment { return m + moment(d) }
func (m moment) sub(o moment) time.Duration { return time.Duration(m - o) }
func (m moment) time() time.Time            { return time.Unix(0, int64(m)) }

// transact makes a transaction. Its messages are sent when the row is written.
func (s *store) transact(ctx context.Context, folder, name string, row any, f func(x *tx) error) error {
	unguard, err := s.guard(ctx, folder+"/"+name)
	if err != nil {
		return err
	}
	s.exchanges.Add(1)
	x := &tx{s: s}
	if err = s.dir.read(folder, name, row); err == nil {
		x.now = moment(s.clock.Now())
		err = f(x)
	}
	if x.changed {
		if written := s.dir.write(folder, name, row, x.durable); written != nil {
			x.messages, err = nil, errors.Join(written, err)
		}
	}
	unguard()
	for _, m := range x.messages {
		s.post(m)
	}
	return err
}

// send sends an event of a ticket to its client, unless the transaction fails.
func (x *tx) send(mailbox string, ev exchange.Event) {
	if mailbox != "" {
		x.messages = append(x.messages, message{To: mailbox, Event: ev})
	}
}

// turn tells a client that tickets of it were granted: once, however many they are, since a mailbox
// has room for a few messages only.
func (x *queueTx) turn(mailbox string) {
	m := message{To: mailbox, Event: exchange.Event{Type: exchange.Granted, Queue: x.Name}}
	if mailbox != "" && !slices.ContainsFunc(x.messages, func(other message) bool { return other.To == mailbox && other.Event.Type == exchange.Granted }) {
		x.messages = append(x.messages, m)
	}
}

// tell sends a change to followers, who follow no more.
func (x *tx) tell(followers *[]string, ev exchange.Event) {
	for _, mailbox := range *followers {
		x.send(mailbox, ev)
	}
	*followers = nil
}

// guarding is the files that are locked by transactions. A row has one of them by its name: a lock
// on the row itself would be lost when the row is replaced.
type guarding struct {
	gate chan struct{} // of the goroutines of this client
	file *os.File
}

const guardCount = 64

// guard waits until no other transaction uses the row. Another process may stop while it has the
// lock, so that it asks again and again, and ends with ctx.
func (s *store) guard(ctx context.Context, row string) (unguard func(), err error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(row))
	n := hash.Sum32() % guardCount
	g := &s.guards[n]
	select {
	case g.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, errClosed
	}
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		locked, err := s.tryGuard(g, s.dir.file(guards, fmt.Sprint(n)))
		if locked && ctx.Err() == nil {
			return func() {
				_ = flock.Unlock(g.file)
				<-g.gate
			}, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && s.ctx.Err() != nil {
			err = errClosed
		}
		if err != nil {
			if locked {
				_ = flock.Unlock(g.file)
			}
			<-g.gate
			return nil, err
		}
		time.Sleep(pause)
	}
}

// tryGuard locks a file of the guards, unless another process has it. A file that was removed, or
// replaced, is not the one that others lock.
func (s *store) tryGuard(g *guarding, path string) (locked bool, err error) {
	if g.file == nil {
		if g.file, err = os.OpenFile(path, os.O_RDWR, 0); errors.Is(err, fs.ErrNotExist) {
			if g.file, err = s.dir.create(path); errors.Is(err, fs.ErrExist) {
				return false, nil
			}
		}
		if err != nil {
			return false, err
		}
	}
	locked, err = flock.Try(g.file)
	if locked && sameFile(g.file, path) {
		return true, nil
	}
	if locked || err != nil {
		g.file.Close()
		g.file = nil
	}
	return false, err
}

func sameFile(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

var errClosed = driver.Permanent(errors.New("file: the driver is closed"))
