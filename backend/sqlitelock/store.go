package sqlitelock

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/coalesce"
	"github.com/interlock-go/interlock/internal/fileclock"
	"github.com/interlock-go/interlock/internal/folder"
)

// store is the exchanges of one client with a file. There are no rows of sessions.
type store struct {
	file      *file
	clock     fileclock.Clock
	boot      uint64 // stands for clock.Boot
	exchanges atomic.Uint64

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mailbox  *folder.Mailbox
	receiver atomic.Pointer[func(exchange.Event)] // where events go; nil before Listen
	watcher  watcher
	unread   coalesce.Tasks // queues a message about which was not received
	tidying  tidying

	mu       sync.Mutex
	closed   bool
	work     sync.WaitGroup          // transactions, and tasks in the background
	sessions map[string]*folder.Life // by ID: of this client
}

func openStore(ctx context.Context, path string, c config) (*store, error) {
	clock, err := fileclock.New()
	if err != nil {
		return nil, driver.Permanent(err)
	}
	s := &store{clock: clock, sessions: map[string]*folder.Life{}}
	boot := fnv.New64a()
	_, _ = boot.Write([]byte(clock.Boot))
	s.boot = boot.Sum64()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watcher.lifelines, s.watcher.suspected = map[string]*folder.Lifeline{}, map[string]bool{}
	if s.file, err = shareFile(ctx, path, c); err != nil {
		s.cancel()
		return nil, err
	}
	s.mailbox = folder.OpenMailbox(s.file.folder, exchange.NewMailbox(), again, s.open, s.notReceived)
	s.file.clients.Store(s.mailbox.Name, s)
	return s, nil
}

// Traits say that the file bounds exchanges, by the ends of their contexts, and that the mailbox is there as long as
// the store.
func (s *store) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: s.mailbox.Name != "", LookSettles: true, Together: together, PerRenew: perRenew}
}

// All other clients wait for a transaction, so that it changes no more than that.
const (
	together = 32
	perRenew = 200
)

// Exchanges counts transactions.
func (s *store) Exchanges() uint64 { return s.exchanges.Load() }

// Explain does nothing: all errors say what they mean.
func (s *store) Explain(err error) error { return err }

var errClosed = driver.Permanent(errors.New("sqlite: the driver is closed"))

// begin counts something that Close waits for, until work is done, unless the store is closed.
func (s *store) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Add(1)
	}
	return !s.closed
}

// background runs a task, unless the store is closed.
func (s *store) background(task func(context.Context)) {
	if s.begin() {
		go func() {
			defer s.work.Done()
			task(s.ctx)
		}()
	}
}

// Close leaves the files of sessions to their flock: they end as if the process had died.
func (s *store) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	s.cancel()
	s.watcher.cut()
	s.file.clients.CompareAndDelete(s.mailbox.Name, s)
	s.mailbox.Close()
	s.work.Wait()
	for _, life := range s.sessions {
		life.Close()
	}
	s.file.leave()
}

// Begin makes the files by which other clients notice that the process has died: one that is locked as long as the
// session lives, and a socket. A child must get both.
func (s *store) Begin(ctx context.Context, of exchange.Session) (begun exchange.Begun, err error) {
	if err := s.view(ctx, func(conn, time.Time) error { return nil }); err != nil { // the folder may be gone with the file
		return begun, err
	}
	life, err := folder.Live(s.file.folder, of.ID)
	if err != nil {
		return begun, driver.Permanent(errors.New("cannot make the files of a session in " + s.file.folder.Path + ": " + err.Error()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		life.Remove()
		return begun, errClosed
	}
	s.sessions[of.ID] = life
	begun.Liveness = life.Files()
	return begun, nil
}

// lives reports whether a session is one of this client, and not over.
func (s *store) lives(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id] != nil
}

// dead reports whether a session has certainly no process any more.
func (s *store) dead(of exchange.Session) bool {
	if s.lives(of.ID) {
		return false
	}
	lock, _ := s.file.folder.Dead(of.ID)
	if lock != nil {
		lock.Close()
	}
	return lock != nil
}

// End has the tickets leave in one transaction.
func (s *store) End(ctx context.Context, of exchange.Session, tickets []exchange.Leave) (queues []string, err error) {
	s.mu.Lock()
	life := s.sessions[of.ID]
	s.mu.Unlock()
	if life == nil {
		return nil, nil
	}
	err = s.change(ctx, false, func(t *tx) error {
		s.mu.Lock()
		delete(s.sessions, of.ID) // a Join that comes later makes no ticket
		s.mu.Unlock()
		for i := range tickets {
			if q, err := t.queue(tickets[i].Queue); err == nil {
				_ = q.Leave(tickets[i])
			} else if !errors.Is(err, errRow) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.mu.Lock()
		s.sessions[of.ID] = life
		s.mu.Unlock()
		return nil, err
	}
	life.Remove()
	return nil, nil
}
