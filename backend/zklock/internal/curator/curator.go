// Package curator has Curator's layouts of semaphores and of barriers, which the Store of zklock uses behind its
// options: InterProcessSemaphoreV2, of which InterProcessSemaphoreMutex is the one with one permit,
// DistributedDoubleBarrier and DistributedBarrier.
//
// # Glossary
//
//   - Lock, lease: the node of a ticket that waits for permits; of one permit. Locks are a line, as that of a mutex.
//   - Member: a ticket of a double barrier. Ready: the node that says that its round has begun.
package curator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// Layouts are Curator's, for one client.
type Layouts struct {
	Store
	Semaphores, Barriers bool

	mu   sync.Mutex
	here map[string]*Member   // by ID of the ticket
	left map[string]departure // the same
}

// Store is what they need of it.
type Store interface {
	With(ctx context.Context, f func(context.Context, *zk.Link) error) error
	Background(f func(ctx context.Context)) (begun bool)
	Path(queue string) string                                               // of its node
	Lay(ctx context.Context, l *zk.Link, path string, container bool) error // makes a node and those above it
	ACL() []zk.ACL
	Locks(nodes []string) []Lock
	Follow(f exchange.Follower, l *zk.Link, path string, children bool) // has the follower told of the next event
	// Swap makes the change that op says, which is asked again, and a marker by which a repetition is known.
	Swap(ctx context.Context, l *zk.Link, id, path string, op func() (any, error)) (marker *zk.Stat, err error)
}

// New is for a Store.
func New(s Store, semaphores, barriers bool) *Layouts {
	ls := &Layouts{Store: s, Semaphores: semaphores, Barriers: barriers}
	ls.here, ls.left = map[string]*Member{}, map[string]departure{}
	return ls
}

// Ticket is what the Store keeps of a ticket.
type Ticket interface {
	Join() *exchange.Join
	Link() *zk.Link
	Session() (zk int64, ctx context.Context) // the session of ZooKeeper; ctx ends with it
	Data(lease bool) []byte                   // of its first node, or of its first lease
	Held() bool
	Wake() // it is to be looked at, whether or not a call waits for it
}

// base is what all tickets have.
type base struct {
	Ticket
	ls    *Layouts
	queue string  // the path
	turn  zk.Turn // see do
}

func (ls *Layouts) base(t Ticket) base {
	return base{Ticket: t, ls: ls, queue: ls.Path(t.Join().Queue), turn: zk.NewTurn()}
}

// do does one thing with the ticket after the other, each to its end, whether or not its caller waits for that: so what
// was asked for is answered, or its connection has ended, before the next one begins.
func (p *base) do(ctx context.Context, f func(ctx context.Context) error) error {
	if err := p.turn.Take(ctx); err != nil {
		return err
	}
	return zk.Run(ctx, func() error {
		defer p.turn.Give()
		_, session := p.Session()
		return f(session)
	})
}

// list lists a node's children: none, if there is no node.
func list(ctx context.Context, l *zk.Link, path string, watch bool) ([]string, error) {
	c, err := l.List(ctx, path, watch)
	return c.Names, zk.Unless(err, zk.ErrNoNode)
}

// again is how soon a task tries again after an error.
const again = 50 * time.Millisecond

// Tickets lists the tickets of a queue whose children these are. What will change is given to watch, which may be nil.
func (ls *Layouts) Tickets(ctx context.Context, l *zk.Link, path string, nodes []string, watch func(string)) (all []*Seen, err error) {
	if ls.Barriers {
		if all, err = members(ctx, l, path, nodes); err != nil {
			return nil, err
		}
	}
	if ls.Semaphores && (slices.Contains(nodes, Locks[1:]) || slices.Contains(nodes, leases[1:])) {
		var folders [2][]string
		for i, folder := range []string{Locks, leases} { // a ticket that has gone from the first is found in the second
			if watch != nil {
				watch(path + folder)
			}
			if folders[i], err = list(ctx, l, path+folder, watch != nil); err != nil {
				return nil, err
			}
		}
		all = append(all, line(ls.Locks(folders[0]), lentIn(folders[1]))...)
	}
	return all, nil
}

// Home is the queue that a node is of which has this name among queues, and these children: a folder of locks or
// leases, or a member.
func (ls *Layouts) Home(name string, nodes []string, stat *zk.Stat) (queue string, is bool) {
	at := max(strings.LastIndexByte(name, '/'), 0)
	switch folder := name[at:]; {
	case ls.Semaphores && folder == Locks:
		is = len(ls.Locks(nodes)) > 0
	case ls.Semaphores && folder == leases:
		is = slices.ContainsFunc(nodes, func(n string) bool { return strings.Contains(n, "lease-") })
	case ls.Barriers && at > 0:
		_, member := idOf(folder[1:])
		is = member && isEphemeral(stat)
	}
	return name[:at], is
}

// Ghost is the ticket whose lease a node is.
func (ls *Layouts) Ghost(node string) (id string) {
	if n := parse(node); n.limit > 0 {
		return n.id
	}
	return ""
}

// LeaseLine reads the leases of a semaphore as a line.
func LeaseLine(nodes []string) (all []*Seen) {
	lent := lentIn(nodes)
	first, _ := lent.limit()
	for i, n := range lent {
		t := &Seen{Node: n.node, Key: keys.Key{ID: n.id, Order: int64(i + 1), Kind: driver.Semaphore, Units: 1}}
		t.Capacity = max(first.limit, 1)
		all = append(all, t)
	}
	return all
}
