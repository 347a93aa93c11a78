package zklock_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// A spy reads at a proxy by which word the server knows the client's session again.
type spy struct {
	*zktest.Proxy
	server string
	mu     sync.Mutex
	opened []byte // the answer to what opened the session
}

func newSpy(t *testing.T, s *zktest.Server) *spy {
	p := &spy{Proxy: zktest.NewProxy(t, s.Addr), server: s.Addr}
	p.Observe(func(f zktest.Frame) {
		if f.Reply && f.Op == zktest.OpConnect {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.opened = slices.Clone(f.Body)
		}
	})
	return p
}

// expire ends the session at the server, as its timeout would: somebody who knows the
// session's word closes it.
func (p *spy) expire(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	opened := p.opened // version, timeout, session, word, and perhaps whether it is read-only
	p.mu.Unlock()
	const id, word = 8, 16
	if len(opened) < word+4+16 {
		t.Fatalf("the session was opened by % x", opened)
	}
	hello := make([]byte, 4+8) // version, last transaction
	hello = append(hello, opened[4:id]...)
	hello = append(hello, opened[id:word+4+16]...)
	const opClose = -11
	bye := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1), uint32(opClose&0xffffffff))
	expired := func() bool {
		c := errtest.Must(net.Dial("tcp", p.server))(t)
		defer c.Close()
		noError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
		ask := func(request []byte) ([]byte, error) {
			_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
			var size [4]byte
			if err == nil {
				_, err = io.ReadFull(c, size[:])
			}
			reply := make([]byte, binary.BigEndian.Uint32(size[:]))
			if err == nil {
				_, err = io.ReadFull(c, reply)
			}
			return reply, err
		}
		welcome, err := ask(hello)
		if err == nil && binary.BigEndian.Uint32(welcome[4:]) == 0 { // the timeout that is granted
			return true
		}
		if err == nil {
			_, err = ask(bye)
		}
		return err == nil
	}
	// The client, which loses its connection by this, may connect again and take the session back,
	// before it is told to end.
	busy.Until(t, "the session has ended", expired)
}

// Promise: a ticket is held if those in front of it are gone, not if only the next
// one is: when that dies while it waits, everybody else goes on waiting.
func TestWhoeverDiesWhileItWaitsLetsNobodyIn(t *testing.T) {
	t.Parallel()
	s := lent(t)
	for _, r := range []driver.Request{
		{Kind: driver.Mutex, Units: 1, Capacity: 1},
		{Kind: driver.Mutex, Units: 1, Capacity: 1, ReportDeath: true},
		{Kind: driver.RWMutex, Units: driver.RWCapacity, Capacity: driver.RWCapacity},
		{Kind: driver.Semaphore, Units: 3, Capacity: 5},
	} {
		t.Run(fmt.Sprintf("%s robust %v", r.Kind, r.ReportDeath), func(t *testing.T) {
			t.Parallel()
			via := newSpy(t, s)
			r.Queue = someID()
			ask := func(session *driver.Opened) driver.Ticket {
				r.ID = someID()
				return join(t, session, r)
			}
			d := opened(t, s.Addr)
			a, b, c := session(t, d, 20*time.Second), session(t, opened(t, via.Addr), 20*time.Second), session(t, d, 20*time.Second)
			noError(t, a.Leave(limited(t), ask(a), true)) // whose mark is there
			front, dies, last := ask(a), ask(b), ask(c)
			died, got := make(chan error, 1), make(chan error, 1)
			go func() { _, err := b.Await(limited(t), dies); died <- err }()
			go func() { _, err := c.Await(limited(t), last); got <- err }()
			time.Sleep(50 * time.Millisecond) // most often they have their watches, but at any time it is right
			via.expire(t)
			if err := <-died; !errors.Is(err, driver.ErrSession) {
				t.Errorf("Await in a session that has ended: %v", err)
			}
			if _, err := b.Join(limited(t), aMutex("new")); !errors.Is(err, driver.ErrSession) {
				t.Errorf("Join in a session that has ended: %v", err)
			}
			select {
			case err := <-got:
				t.Fatalf("two hold, since one that waited has died: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			noError(t, a.Leave(limited(t), front, true))
			noError(t, <-got)
			q := errtest.Must(d.Follow(limited(t), r.Queue, ""))(t)
			if len(q.Members) != 1 || q.Members[0].ID != last.ID || !q.Members[0].Held {
				t.Errorf("the queue is %+v", q.Members)
			}
		})
	}
}

// Promise: the holder of a lock whose session the server has ended is told so as soon
// as it is connected, and the next one that it has died.
func TestWhoseSessionEndsWhileItHoldsIsTold(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := newSpy(t, s)
	a := client(t, via.Addr, "ttl=20s")
	lease := errtest.Must(a.Mutex("job").Acquire(limited(t)))(t)
	b := client(t, s.Addr, "ttl=20s")
	next := inBackground(func() (*interlock.Lease, error) { return b.Mutex("job", interlock.ReportDeath()).Acquire(limited(t)) })
	watchQueue(t, b, "job", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	via.expire(t)
	select {
	case <-lease.Done():
	case <-time.After(10 * time.Second): // the deadline would come after more than 15
		t.Fatal("the holder is not told")
	}
	if !errors.Is(lease.Err(), interlock.ErrLost) {
		t.Errorf("the lease ended with %v", lease.Err())
	}
	got := leased(t, next)
	if !got.Inherited() || got.Token() <= lease.Token() {
		t.Errorf("the next one inherits: %v, the token %d follows %d", got.Inherited(), got.Token(), lease.Token())
	}
	noError(t, got.Release())

	// The client goes on, in another session.
	again := errtest.Must(a.Mutex("job").Acquire(limited(t)))(t)
	noError(t, again.Release())
}

// Promise: whoever waits in a line is told when its session ends, and stands in line
// again, at the end.
func TestWhoseSessionEndsWhileItWaitsStandsInLineAgain(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := newSpy(t, s)
	a := client(t, via.Addr, "ttl=20s")
	b := client(t, s.Addr, "ttl=20s")
	front := errtest.Must(b.Mutex("job").Acquire(limited(t)))(t)
	first := inBackground(func() (*interlock.Lease, error) { return a.Mutex("job").Acquire(limited(t)) })
	watchQueue(t, b, "job", func(q interlock.Queue) bool { return len(q.Waiters) == 1 })
	c := client(t, s.Addr, "ttl=20s")
	second := inBackground(func() (*interlock.Lease, error) { return c.Mutex("job").Acquire(limited(t)) })
	before := watchQueue(t, b, "job", func(q interlock.Queue) bool { return len(q.Waiters) == 2 })
	via.expire(t)
	watchQueue(t, b, "job", func(q interlock.Queue) bool {
		return len(q.Waiters) == 2 && q.Waiters[0].ID == before.Waiters[1].ID && q.Waiters[1].ID != before.Waiters[0].ID
	})
	noError(t, front.Release())
	noError(t, leased(t, second).Release())
	noError(t, leased(t, first).Release())
}

// Promise: who holds or waits in a queue whose node is removed by hand is told so, and
// the queue goes on with larger tokens.
func TestQueueThatIsRemovedByHand(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a, b := session(t, d, 20*time.Second), session(t, d, 20*time.Second)
	held, waiting := holds(t, a, aMutex("q/of/some")), join(t, b, aMutex("q/of/some"))
	told := make(chan driver.Signal, 1)
	go func() {
		for {
			got, err := a.Signals(limited(t))
			if err != nil || got.Demand == driver.Evict {
				told <- got
				return
			}
		}
	}()
	gone := make(chan error, 1)
	go func() { _, err := b.Await(limited(t), waiting); gone <- err }()
	time.Sleep(50 * time.Millisecond) // that it has been held for some time
	raw := connected(t, s.Addr)
	for _, n := range nodes(t, raw, "/a/q/of/some") {
		noError(t, raw.Delete("/a/q/of/some/"+n, -1))
	}
	for _, path := range []string{"/a/q/of/some", "/a/q/of", "/a/q"} {
		if err := raw.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Fatal(err)
		}
	}
	if got := <-told; got.ID != held.ID {
		t.Errorf("the holder is told %+v", got)
	}
	// Its ticket may have been next for a moment.
	if err := <-gone; err != nil && !errors.Is(err, driver.ErrGone) {
		t.Errorf("Await of a ticket that was removed: %v", err)
	}
	if err := b.Leave(limited(t), waiting, true); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Leave of a ticket that was removed: %v", err)
	}
	if err := a.Leave(limited(t), held, true); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Leave of a ticket that was removed: %v", err)
	}
	if next := holds(t, b, aMutex("q/of/some")); next.Token <= held.Token {
		t.Errorf("the token %d follows %d", next.Token, held.Token)
	}
}
