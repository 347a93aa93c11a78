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
	"slices"
	"strings"
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
	cancel    context.CancelFunc

	mailbox string
	conn    atomic.Pointer[net.UnixConn] // of the mailbox
	sender  *net.UnixConn                // sends to the mailboxes of others
	receive atomic.Pointer[func(exchange.Event)]

	rows         *rowFiles
	locks        locks
	watch        watch
	mu           sync.Mutex
	lives        map[string]*os.File // by ID of the session; nil: closed
	transactions sync.WaitGroup
	tidied       string // the queue up to which rows were tidied
}

func openStore(path string, mode fs.FileMode) (*store, error) {
	clock, err := fileclock.New()
	if err != nil {
		return nil, err
	}
	s := &store{clock: clock, pid: os.Getpid(), mailbox: exchange.NewMailbox(), lives: map[string]*os.File{}}
	if s.rows, err = openRows(path, mode, s); err != nil {
		return nil, err
	}
	s.dir = s.rows.dir
	if s.sender, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}); err != nil {
		s.rows.close(s)
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.locks.s, s.locks.files = s, map[string]*locked{}
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

func (s *store) Exchanges() uint64 { return s.exchanges.Load() }

func (s *store) Begin(ctx context.Context, of exchange.Session) (exchange.Begun, error) {
	s.exchanges.Add(1)
	f, err := s.live(of.ID)
	return exchange.Begun{Liveness: []*os.File{f}}, err
}

func (s *store) End(ctx context.Context, of exchange.Session, tickets []exchange.Leave) ([]string, error) {
	for _, l := range tickets {
		if _, err := s.Leave(ctx, l); err != nil && !errors.Is(err, driver.ErrGone) {
			return nil, err
		}
	}
	s.die(of.ID)
	return nil, nil
}

func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	for {
		st, unlocking, err := s.join(ctx, j)
		switch {
		case !unlocking:
			return st, err
		case ctx.Err() != nil: // the ticket stands, and may be granted at once
			return st, ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
}

// join is one transaction of a Join. It says whether it is to be repeated: the ticket is granted, and
// the client of the last holder is about to unlock the file.
func (s *store) join(ctx context.Context, j exchange.Join) (st exchange.Status, unlocking bool, err error) {
	err = s.change(ctx, j.Queue, func(x *queueTx) error {
		t := x.ticket(j.ID)
		if len(x.Tickets) == 0 && !x.Resized && (x.Kind != j.Kind || x.Capacity != j.Capacity) {
			x.Kind, x.Capacity, x.changed = j.Kind, j.Capacity, true
		}
		switch {
		case t != nil && t.Session.ID != j.Session.ID || x.buried(j.ID):
			return driver.ErrGone
		case t != nil:
			x.extend(t)
		case x.Kind != j.Kind || x.Capacity != j.Capacity:
			return driver.ErrMismatch
		case t == nil && (len(x.Tickets) >= maxList || x.size > maxRow/2):
			return errTooLong
		case max(x.Token, clockToken())+uint64(len(x.Tickets))+1 >= driver.MaxToken:
			return exchange.ErrTokens
		case j.NoWait && !x.fits(j.Units):
			return driver.ErrBusy
		}
		found := t != nil
		if !found {
			t = &ticket{ID: j.ID, Units: j.Units, Session: j.Session, Request: j.Hold, Note: j.Note, Since: time.Now(),
				End: x.now.add(j.Session.TTL)}
			x.Tickets, x.joins = append(x.Tickets, t), t
			x.news()
			x.settle()
		}
		st = x.status(t)
		st.Sent = x.sent
		unlocking = t.Held && st.State == exchange.Waiting && x.now < x.Unlocking && x.unlockable == nil
		switch {
		case x.unlockable != nil:
			x.remove(t, true)
			return driver.Permanent(x.unlockable)
		case st.State == exchange.Held, unlocking:
		case j.NoWait:
			x.remove(t, true)
			return driver.ErrBusy
		case !found && st.Ahead == 0:
			for _, holder := range x.Tickets[:len(x.Tickets)-1] { // which now have a waiter behind them
				x.send(holder.Session.Mailbox, exchange.Event{Type: exchange.Demanded, ID: holder.ID, Demand: driver.Wanted})
			}
		}
		return nil
	})
	return st, unlocking && err == nil, err
}

func (s *store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	return false, s.change(ctx, l.Queue, func(x *queueTx) error {
		if l.Tombstone > 0 {
			x.bury(l.ID, l.Tombstone)
		}
		t, err := x.find(l.Session, l.ID)
		if err == nil && !(l.Unfixed && t.Fixed) {
			x.remove(t, l.Clean)
		}
		return err
	})
}

// Withdraw is for a crowd that gives up: one transaction takes out many waiters.
func (s *store) Withdraw(ctx context.Context, of exchange.Session, queue string, ids []string, clean bool) (gone []bool, unsettled bool, err error) {
	gone = make([]bool, len(ids))
	return gone, false, s.change(ctx, queue, func(x *queueTx) error {
		for i, id := range ids {
			if t, err := x.find(of, id); err == nil && t.Session.ID == of.ID {
				x.remove(t, clean)
			} else {
				gone[i] = true
			}
		}
		return nil
	})
}

func (s *store) Shrink(ctx context.Context, of exchange.Session, ref exchange.Ref, units int64) (bool, error) {
	return false, s.change(ctx, ref.Queue, func(x *queueTx) error {
		t, err := x.find(of, ref.ID)
		if err != nil || units >= t.Units {
			return err
		}
		if t.Units == x.Capacity && t.Locked && x.mine(t) && !s.locks.share(t.ID) {
			x.drop(t, true) // another program was faster
			return driver.ErrGone
		}
		if x.exclusive(t) {
			x.Unclean = false // the exclusive hold has ended well
		}
		t.Units = units
		x.news()
		return nil
	})
}

func (s *store) Keep(ctx context.Context, of exchange.Session, ref exchange.Ref, d time.Duration) error {
	return s.change(ctx, ref.Queue, func(x *queueTx) error {
		t, err := x.find(of, ref.ID)
		switch end := x.now.add(d); {
		case err != nil:
			return err
		case !t.Held || x.flocked() && x.mine(t) && !t.Locked:
			return exchange.ErrNotHeld
		case t.Evicted && end > t.End:
			return driver.ErrGone
		default:
			t.Fixed, t.Hold, t.End, x.durable = true, d, end, true
			s.locks.until(t.ID, end)
			x.news()
			return nil
		}
	})
}

// Renew makes a transaction of each queue.
func (s *store) Renew(ctx context.Context, of exchange.Session, refs []exchange.Ref, extend int) (exchange.Renewal, error) {
	named := map[exchange.Ref]bool{}
	for _, ref := range refs[:extend] {
		named[ref] = true
	}
	all, err := s.look(ctx, of, refs, named)
	return exchange.Renewal{Tickets: all}, err
}

func (s *store) Look(ctx context.Context, of exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	return s.look(ctx, of, refs, nil)
}

// look reads the status of tickets, for a heartbeat after it has extended those that are named. If
// a queue cannot be read, the others can.
func (s *store) look(ctx context.Context, of exchange.Session, refs []exchange.Ref, named map[exchange.Ref]bool) (all []exchange.Status, err error) {
	all = make([]exchange.Status, len(refs)) // each is gone
	in := map[string][]int{}
	var order []string
	for i, ref := range refs {
		if in[ref.Queue] == nil {
			order = append(order, ref.Queue)
		}
		in[ref.Queue] = append(in[ref.Queue], i)
	}
	read := 0
	for _, queue := range order {
		failed := s.change(ctx, queue, func(x *queueTx) error {
			for _, i := range in[queue] {
				t, err := x.find(of, refs[i].ID)
				if err != nil {
					continue
				}
				if named[refs[i]] && t.Session.ID == of.ID {
					if !s.locks.intact(t.ID) {
						x.drop(t, false)
						continue
					}
					x.extend(t)
				}
				all[i] = x.status(t)
				all[i].Sent, all[i].Stray = x.sent, named != nil && !named[refs[i]] && !t.Fixed
			}
			return x.unlockable
		})
		if failed == nil {
			read++
			continue
		}
		err = errors.Join(err, failed)
		for _, i := range in[queue] {
			all[i] = exchange.Status{State: exchange.NotAsked}
		}
	}
	if read > 0 {
		err = nil
	}
	return all, err
}

func (s *store) Settle(ctx context.Context, queue string) (bool, error) {
	return false, s.change(ctx, queue, func(*queueTx) error { return nil })
}

func (s *store) Ask(ctx context.Context, queue, id string, demand driver.Demand) (bool, error) {
	return false, s.change(ctx, queue, func(x *queueTx) error {
		t := x.ticket(id)
		switch {
		case t == nil && strings.HasPrefix(id, foreignID):
			for _, m := range s.foreign(x.queue) {
				if m.ID == id {
					return driver.Invalid(fmt.Errorf("%s, has locked %s: it cannot be asked", m.Owner, s.dir.lockFile(queue)))
				}
			}
			return driver.ErrGone
		case t == nil:
			return driver.ErrGone
		case demand == driver.Force || demand == driver.Evict && !t.Held:
			x.evict(t, false)
			return nil
		}
		t.Revoked, t.Evicted = t.Revoked || demand == driver.Revoke, t.Evicted || demand == driver.Evict
		if end := x.now.add(t.Session.TTL); t.Evicted && end < t.End {
			t.End = end
		}
		x.send(t.Session.Mailbox, exchange.Event{Type: exchange.Demanded, ID: t.ID, Demand: demand})
		x.news()
		return nil
	})
}

// Resize outlasts a power loss.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	return false, s.change(ctx, queue, func(x *queueTx) error {
		switch {
		case len(x.Tickets) > 0 && x.Kind != driver.Semaphore:
			return driver.ErrMismatch
		case capacity == 0 && !x.Resized:
			return nil
		}
		if x.Resized = capacity > 0; x.Resized {
			x.Kind, x.Capacity = driver.Semaphore, capacity
		}
		for _, t := range slices.Clone(x.Tickets) {
			if !t.Held && t.Units > x.Capacity {
				x.evict(t, true)
			}
		}
		x.durable = true
		x.news()
		return nil
	})
}

// Raise writes a row anew that is damaged: nothing in it can be used, and no token of it comes back.
func (s *store) Raise(ctx context.Context, name string, floor uint64) error {
	return s.changeRow(ctx, name, &queue{Name: name, anew: true}, func(x *queueTx) error {
		x.Token, x.changed, x.durable = max(x.Token, floor), true, true
		return nil
	})
}

func (s *store) Clock(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }

func (s *store) Read(ctx context.Context, queue string, f exchange.Follower) (snap exchange.Snapshot, err error) {
	err = s.change(ctx, queue, func(x *queueTx) error {
		x.follow(&x.Followers, f)
		snap = exchange.Snapshot{Queue: driver.Queue{Name: x.Name, Kind: x.Kind, Capacity: x.Capacity, Resized: x.Resized}, At: x.now.time()}
		others := s.foreign(x.queue)
		for _, t := range x.Tickets {
			held := t.Held && (t.Locked || !x.flocked() || len(others) == 0)
			m := driver.Member{ID: t.ID, Owner: t.Session.Owner, Note: t.Note, Units: t.Units, Held: held,
				Since: t.Since, Left: t.End.sub(x.now), Fixed: t.Fixed}
			if held {
				m.Token = t.Token
			}
			snap.Members = append(snap.Members, m)
		}
		if len(others) > 0 && len(x.Tickets) == 0 && !x.Resized {
			snap.Kind, snap.Capacity = driver.Mutex, 1
		}
		for _, m := range others {
			m.Units = min(m.Units, snap.Capacity)
			snap.Members = append(snap.Members, m)
		}
		slices.SortStableFunc(snap.Members, func(a, b driver.Member) int { return rank(a) - rank(b) })
		return nil
	})
	return snap, err
}

// rank puts holders in front of waiters.
func rank(m driver.Member) int {
	if m.Held {
		return 0
	}
	return 1
}

// List reads queues that have a row, and files that other programs have locked.
func (s *store) List(ctx context.Context, prefix, from string) (list []exchange.Snapshot, next string, err error) {
	all, bad := s.names(ctx, queues, prefix)
	names, next := pageOf(append(all, s.foreignNames(prefix)...), from)
	for _, name := range names {
		q, err := s.Read(ctx, name, exchange.Follower{})
		if err != nil && ctx.Err() != nil {
			return nil, "", err
		}
		if bad.add(err); len(q.Members) > 0 {
			list = append(list, q)
		}
	}
	return list, next, bad.err()
}

// pageOf returns the first names after from, and where the next page goes on.
func pageOf(names []string, from string) (page []string, next string) {
	const most = 1000
	slices.Sort(names)
	names = slices.Compact(names)
	i, found := slices.BinarySearch(names, from)
	if found {
		i++
	}
	if page = names[i:]; len(page) > most {
		page = page[:most]
		next = page[most-1]
	}
	return page, next
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
	s.cancel()
	s.locks.close()
	s.mu.Lock()
	for _, f := range s.lives {
		f.Close()
	}
	s.lives = nil
	s.mu.Unlock()
	s.transactions.Wait()
	s.rows.close(s)
	s.sender.Close()
}
