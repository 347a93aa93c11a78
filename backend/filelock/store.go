//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/fileclock"
)

// store is the exchanges with one directory. There are no rows of sessions.
type store struct {
	dir       *dir
	clock     fileclock.Clock
	boot      uint64 // stands for clock.Boot
	pid       int
	exchanges atomic.Uint64
	ctx       context.Context // ends with Close
	cancel    context.CancelCauseFunc

	mailbox string
	sender  *net.UnixConn // sends to the mailboxes of others
	receive atomic.Pointer[func(exchange.Event)]

	locks        locks
	watch        watch
	mu           sync.Mutex
	lives        map[string]*os.File // by ID of the session; nil: closed
	transactions sync.WaitGroup
	tidied       atomic.Value // the queue up to which rows were tidied
}

func openStore(path string, mode fs.FileMode) (*store, error) {
	clock, err := fileclock.New()
	if err != nil {
		return nil, err
	}
	s := &store{clock: clock, pid: os.Getpid(), mailbox: exchange.NewMailbox(), lives: map[string]*os.File{}}
	if s.dir, err = openDir(path, mode); err != nil {
		return nil, err
	}
	if s.sender, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}); err != nil {
		s.dir.close()
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.locks.s, s.locks.files = s, map[string]*locked{}
	s.dir.stores.Store(s.mailbox, s)
	boot := fnv.New64a()
	_, _ = boot.Write([]byte(clock.Boot))
	s.boot = boot.Sum64()
	return s, nil
}

// Traits: a transaction is short, and ends with its context. The store listens all the time, since a
// holder that another client takes out has to unlock its file at once.
func (*store) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, LookSettles: true, Listens: true}
}

// now is the time by the clock of the rows.
func (s *store) now() time.Time { return time.Unix(0, s.clock.Now()) }

func (s *store) Exchanges() uint64 { return s.exchanges.Load() }

func (s *store) Begin(ctx context.Context, of exchange.Session) (exchange.Begun, error) {
	s.exchanges.Add(1)
	f, err := s.live(of.ID)
	return exchange.Begun{Liveness: []*os.File{f}}, err
}

// Explain says what a failure of the file system means.
func (s *store) Explain(err error) error {
	switch {
	case driver.IsPermanent(err):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s was removed, or a part of it; its locks are lost: %w", s.dir.path, err)
	case errors.Is(err, fs.ErrPermission):
		return s.dir.denied(err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the directory %s cannot be written: %w", s.dir.path, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk of %s is full: %w", s.dir.path, err)
	}
	return fmt.Errorf("directory %s: %w", s.dir.path, err)
}

// begin counts a transaction, unless the store is closed.
func (s *store) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives == nil {
		return false
	}
	s.transactions.Add(1)
	return true
}

// Close gives up all locks, as the death of the process would.
func (s *store) Close() {
	s.cancel(errClosed)
	s.dir.stores.Delete(s.mailbox)
	s.mu.Lock()
	sessions := s.lives
	s.lives = nil
	s.mu.Unlock()
	s.transactions.Wait()
	s.locks.close()
	for id, f := range sessions {
		s.dir.alive.Delete(id)
		f.Close()
	}
	s.dir.close()
	s.sender.Close()
}
