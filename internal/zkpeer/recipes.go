package zkpeer

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// recipe is a recipe of a library at a path, as one thread sees it.
type recipe struct {
	thread *Thread
	family string // of its operations
	args   Args
}

func (r recipe) call(ctx context.Context, op string, more Args, result any) error {
	args := maps.Clone(r.args)
	maps.Copy(args, more)
	return r.thread.Call(ctx, r.family+"."+op, args, result)
}

// brief calls what does not wait.
func (r recipe) brief(op string, result any) error {
	return r.thread.brief(r.family+"."+op, r.args, result)
}

// Lock is a lock as one thread sees it.
type Lock struct{ recipe }

// Mutex is an InterProcessMutex of Curator or a Lock of kazoo.
func (t *Thread) Mutex(path string) *Lock { return t.lock("mutex", path) }

// Read is the shared side of a read-write lock.
func (t *Thread) Read(path string) *Lock { return t.lock("read", path) }

// Write is the exclusive side of a read-write lock.
func (t *Thread) Write(path string) *Lock { return t.lock("write", path) }

// SemaphoreMutex is an InterProcessSemaphoreMutex of Curator. No thread owns it.
func (t *Thread) SemaphoreMutex(path string) *Lock { return t.lock("semaphoremutex", path) }

// Semaphore is an InterProcessSemaphoreV2 of Curator.
func (t *Thread) Semaphore(path string, most int) *Lock {
	l := t.lock("semaphore", path)
	l.args["max"] = most
	return l
}

// NoLock locks nothing, to see what happens then.
func (t *Thread) NoLock() *Lock { return t.lock("none", "/") }

func (t *Thread) lock(kind, path string) *Lock {
	return &Lock{recipe{t, "lock", Args{"kind": kind, "path": path}}}
}

// Acquire waits for the lock.
func (l *Lock) Acquire(ctx context.Context) error { return l.AcquireUnits(ctx, 1) }

// AcquireUnits waits for so many leases of a semaphore of Curator at once.
func (l *Lock) AcquireUnits(ctx context.Context, n int) error {
	return l.call(ctx, "acquire", Args{"units": n}, nil)
}

// TryAcquire waits for the lock so long at most, and reports whether it has got it.
func (l *Lock) TryAcquire(ctx context.Context, wait time.Duration) (ok bool, err error) {
	err = l.call(ctx, "acquire", Args{"timeout": wait.Milliseconds()}, &ok)
	return ok, err
}

// Release releases what the thread has acquired last.
func (l *Lock) Release() error { return l.brief("release", nil) }

// Participants are the paths of those who hold or wait, in order. Nodes that the
// peer takes for no lock are left out. Curator only.
func (l *Lock) Participants() (all []string, err error) {
	err = l.brief("participants", &all)
	return all, err
}

// MakeRevocable has the session get an event Revoked when somebody asks a holder
// for the lock. It counts for what is acquired later. Curator only.
func (l *Lock) MakeRevocable() error { return l.brief("revocable", nil) }

// Revoke asks the holder of a node to release its lock. Curator only.
func (t *Thread) Revoke(node string) error {
	return t.brief("lock.revoke", Args{"path": node}, nil)
}

// Barrier is a DistributedBarrier of Curator.
type Barrier struct{ recipe }

// Barrier returns the barrier of a path.
func (t *Thread) Barrier(path string) *Barrier {
	return &Barrier{recipe{t, "barrier", Args{"path": path}}}
}

// Set closes the barrier.
func (b *Barrier) Set() error { return b.brief("set", nil) }

// Remove opens the barrier.
func (b *Barrier) Remove() error { return b.brief("remove", nil) }

// Wait waits until the barrier is open.
func (b *Barrier) Wait(ctx context.Context) error { return b.call(ctx, "wait", nil, nil) }

// TryWait waits so long at most, and reports whether the barrier is open.
func (b *Barrier) TryWait(ctx context.Context, wait time.Duration) (ok bool, err error) {
	err = b.call(ctx, "wait", Args{"timeout": wait.Milliseconds()}, &ok)
	return ok, err
}

// DoubleBarrier is a DistributedDoubleBarrier of Curator. Its thread is one of the members.
type DoubleBarrier struct{ recipe }

// DoubleBarrier returns the double barrier of a path for so many members.
func (t *Thread) DoubleBarrier(path string, members int) *DoubleBarrier {
	return &DoubleBarrier{recipe{t, "doublebarrier", Args{"path": path, "members": members}}}
}

// Enter waits until all have entered.
func (b *DoubleBarrier) Enter(ctx context.Context) error { return b.call(ctx, "enter", nil, nil) }

// Leave waits until all have left.
func (b *DoubleBarrier) Leave(ctx context.Context) error { return b.call(ctx, "leave", nil, nil) }

// Election is one candidate of an election.
type Election struct{ recipe }

// Participant is a candidate as others see it.
type Participant struct {
	ID     string `json:"id"`
	Leader bool   `json:"leader"`
}

// Latch is a LeaderLatch of Curator: it leads until it is closed.
func (s *Session) Latch(path, id string) *Election { return s.election("latch", path, id) }

// Selector is a LeaderSelector of Curator, or an Election of kazoo: it leads until
// it resigns.
func (s *Session) Selector(path, id string) *Election { return s.election("selector", path, id) }

// What waits has a thread of its own, so that all else can be asked meanwhile.
func (s *Session) election(family, path, id string) *Election {
	return &Election{recipe{s.thread(family + " " + path + " " + id), family, Args{"path": path, "candidate": id}}}
}

// Start makes it a candidate. One that has resigned may start again.
func (e *Election) Start() error { return e.brief("start", nil) }

// Leads reports whether it is the leader.
func (e *Election) Leads() (yes bool, err error) {
	err = e.brief("leads", &yes)
	return yes, err
}

// Await waits until it is the leader.
func (e *Election) Await(ctx context.Context) error { return e.call(ctx, "await", nil, nil) }

// Resign ends the leadership of a selector.
func (e *Election) Resign() error { return e.brief("resign", nil) }

// Participants lists the candidates of a latch. Who is last to know may see no leader.
func (e *Election) Participants() (all []Participant, err error) {
	err = e.brief("participants", &all)
	return all, err
}

// Close ends the candidacy and the leadership.
func (e *Election) Close() error { return e.brief("close", nil) }

// brief does not wait behind an Await.
func (e *Election) brief(op string, result any) error {
	asking := e.thread.session.thread("asks " + e.thread.name)
	return asking.brief(e.family+"."+op, e.args, result)
}

// Shape is who competes for what. All compete by mutexes of Curator.
type Shape struct {
	Clients int // with connections of their own
	Workers int // threads; worker i uses client i modulo Clients, and name i modulo Names
	Names   int
}

// Contest is a workload in the JVM of a peer, where threads acquire and release
// for a time.
type Contest struct{ recipe }

// Figures are what a contest has done.
type Figures struct {
	Took  time.Duration   `json:"took"`
	Each  []int64         `json:"each"`  // grants of every worker within the time
	Gaps  []time.Duration `json:"gaps"`  // of each hand-off: from just before the release until the next one holds
	Stuck int             `json:"stuck"` // were still waiting when the limit was reached
	Wrong []string        `json:"wrong"` // what a lock must never do, and errors
}

// number makes the paths of contests differ.
var number atomic.Int64

// Contest connects the clients and warms them up for a time: a JVM compiles what
// it has already run for a while. The caller has to Close it.
func (p *Peer) Contest(ctx context.Context, s Shape, warm time.Duration) (*Contest, error) {
	path := fmt.Sprintf("/bench-%d-%d", time.Now().UnixNano(), number.Add(1))
	c := &Contest{recipe{p.thread("contest " + path), "contest", Args{"path": path}}}
	return c, c.call(ctx, "prepare", Args{
		"clients": s.Clients, "workers": s.Workers, "names": s.Names, "warm": warm.Milliseconds(),
	}, nil)
}

// Run lets them compete for that time. Then each has until the limit to get the
// lock once more. It can be run again.
func (c *Contest) Run(ctx context.Context, d, limit time.Duration) (f Figures, err error) {
	err = c.call(ctx, "run", Args{"time": d.Milliseconds(), "limit": limit.Milliseconds()}, &f)
	return f, err
}

// Close closes the clients, which a server does one after the other.
func (c *Contest) Close(ctx context.Context) error { return c.call(ctx, "close", nil, nil) }

// Count acquires the lock, adds one to the number in a file, and releases the
// lock, n times. See NewCount.
func (l *Lock) Count(ctx context.Context, file string, n int) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	return l.call(ctx, "count", Args{"file": file, "n": n}, nil)
}

// The number always has as many digits, so that a write never shortens the file
// and a reader always finds a number.
const digits = 20

// NewCount writes a file with the number zero. Whoever adds to it reads it, waits
// a moment, and writes it, without any lock: if two do that at the same time, one
// addition is lost.
func NewCount(file string) error {
	return os.WriteFile(file, fmt.Appendf(nil, "%0*d", digits, 0), 0o600)
}

// ReadCount returns the number in the file.
func ReadCount(file string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(b))
}

// Increment adds one, as the peers do it. The caller has to hold the lock.
func Increment(file string) error {
	n, err := ReadCount(file)
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Microsecond) // another who is here as well is not missed
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%0*d", digits, n+1); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
