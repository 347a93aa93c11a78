package drivertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/process"
	"github.com/interlock-go/interlock/drivertest/internal/remote"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// role is that of the copies of the test binary in which drivers live.
const role = "driver"

func init() {
	process.Role(role, func(conn io.ReadWriteCloser) { remote.Serve(conn, nil, works) })
}

// process starts another process, which ends with the rule.
func (t *trial) process(files ...*os.File) *process.Process {
	p, err := process.Start(role, files...)
	t.OK(err, "start a client process")
	t.Later(p.Kill)
	return p
}

// elsewhere is a driver in a process of its own.
type elsewhere struct {
	*remote.Driver
	process *process.Process
}

func (d *elsewhere) Close() error { return errors.Join(d.Driver.Close(), d.process.Wait()) }

// elsewhere opens a driver in a process of its own.
func (t *trial) elsewhere() *elsewhere {
	p := t.process()
	d, err := remote.Dial(t.Ctx, p.Conn, t.world.URL)
	t.OK(err, "open %s in another process", t.world.URL)
	return &elsewhere{d, p}
}

// inProcesses makes every client of the world a process.
func (w World) inProcesses() World {
	url := w.URL
	w.Open = func(ctx context.Context) (driver.Driver, error) {
		p, err := process.Start(role)
		if err != nil {
			return nil, err
		}
		d, err := remote.Dial(ctx, p.Conn, url)
		if err != nil {
			p.Kill()
			return nil, err
		}
		return &elsewhere{d, p}, nil
	}
	return w
}

// A task is what a process does under a lock, to a file that nothing else
// protects.
type task struct {
	Request    driver.Request // but for its ID
	File       string
	Times      int // of work: 0 for ever
	TTL        time.Duration
	Neighbours []string // files that are opened and closed in between, as another part of the program may do
}

// works are the tasks by the names under which other processes are given them.
var works = map[string]remote.Work{"log": func(ctx context.Context, d driver.Driver, args []byte) error {
	var w task
	if err := json.Unmarshal(args, &w); err != nil {
		return err
	}
	return work(ctx, d, w)
}}

// work writes a line for every moment at which it holds the lock by its own
// account: before its last proof plus the TTL. It may be killed or stopped at
// any of them, and ends with its context, or after so many grants.
func work(ctx context.Context, d driver.Driver, w task) error {
	log, err := os.OpenFile(w.File, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	for {
		err := workInSession(ctx, d, w, log)
		over := errors.Is(err, driver.ErrSession) || errors.Is(err, driver.ErrGone)
		if err == nil || ctx.Err() != nil || !over && driver.IsPermanent(err) {
			return err
		}
		if !over { // a connection that was lost while the process was stopped, for example
			time.Sleep(w.TTL / 100)
		}
	}
}

// workInSession works until the session is over, or a ticket is.
func workInSession(ctx context.Context, d driver.Driver, w task, log *os.File) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := d.Open(ctx, driver.SessionOptions{TTL: w.TTL})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	var current atomic.Pointer[driver.Ticket]
	var proof atomic.Int64
	go func() {
		for ctx.Err() == nil {
			var known []driver.Ticket
			if tk := current.Load(); tk != nil {
				known = append(known, *tk)
			}
			answer, err := s.Renew(ctx, known)
			if errors.Is(err, driver.ErrSession) {
				cancel(err)
				return
			}
			for _, r := range answer {
				if tk := current.Load(); tk != nil && r.ID == tk.ID && r.State == driver.Kept {
					proof.Store(int64(r.Proof))
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(s.TTL / 3):
			}
		}
	}()
	for n := 0; w.Times == 0 || n < w.Times; n++ {
		r := w.Request
		r.ID = newID()
		current.Store(&driver.Ticket{ID: r.ID, Queue: r.Queue})
		tk, err := s.Join(ctx, r)
		if err == nil {
			tk, err = s.Await(ctx, tk)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
		proof.Store(int64(tk.Proof)) // what a Renew said while it waited is older
		for range 5 {
			at := suite.Stamp()
			if d.Now() >= driver.Instant(proof.Load()).Add(s.TTL) {
				return driver.ErrGone
			}
			if _, err := fmt.Fprintf(log, lineFormat, tk.ID, tk.Token, at); err != nil {
				return err
			}
			time.Sleep(200 * time.Microsecond)
		}
		if err := s.Leave(ctx, tk, true); err != nil {
			return err
		}
		for _, path := range w.Neighbours {
			_, _ = os.ReadFile(path) // not all of them need exist
		}
	}
	return nil
}

// A span is the time in which somebody worked under one grant.
type span struct {
	id          string
	token       uint64
	first, last int64
}

// A line begins and ends with a mark: one that a killed process left half written, or
// that is just being written, is not taken for another, nor are two for one.
const lineFormat, lineEnd = "\n%s %d %d.", "."

// spans reads what the workers wrote, one for each grant, in the order of the
// file. A line that is not whole does not count.
func spans(file string) ([]span, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []span
	index := map[string]int{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasSuffix(line, lineEnd) {
			continue
		}
		var s span
		if n, err := fmt.Sscanf(line, lineFormat[1:], &s.id, &s.token, &s.first); n != 3 || err != nil {
			return nil, fmt.Errorf("line %q: %v", line, err)
		}
		s.last = s.first
		i, ok := index[s.id]
		if !ok {
			index[s.id] = len(all)
			all = append(all, s)
			continue
		}
		all[i].first, all[i].last = min(all[i].first, s.first), max(all[i].last, s.last)
	}
	return all, nil
}

// vacated follows a queue that has tickets, and returns what waits until its follower is told that it has none.
func (t *trial) vacated(queue string) (wait func()) {
	d := t.driver()
	q := t.snapshot(d, queue)
	return t.Go(func() {
		_, err := follows(t.Ctx, d, queue, q.Version, func(q driver.Queue) bool { return len(q.Members) == 0 })
		t.OK(err, "Follow of %q, whose only member was killed", queue)
	})
}

var _ = rules.Add(rule{Name: "KilledProcess", Processes: true, Says: []string{expires, inheritedSays, followSays}}, func(t *trial) {
	b, c := t.client(), t.client()
	holder, waiter := t.elsewhere(), t.elsewhere()
	a := t.session(holder, t.TTL)
	a.hold(t.exclusive("held"))
	a.hold(t.exclusive("followed"))
	vacated := t.vacated("followed")
	front := b.hold(t.exclusive("waiting"))
	t.session(waiter, t.TTL).wait(t.exclusive("waiting"))
	next := b.join(t.exclusive("held"))
	last := c.wait(t.exclusive("waiting"))
	b.beat(next, front)
	c.beat(last)
	holder.process.Kill()
	waiter.process.Kill()
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a process that was killed")
	b.leave(front)
	c.await(last)
	vacated()
})

var _ = rules.Add(rule{Name: "StoppedProcess", Processes: true, Says: []string{
	expires,
	"Proof is the local time from which the backend guarantees a held ticket for the session's TTL, or for its Hold: no other ticket takes its place before.",
}}, func(t *trial) {
	b, other := t.client(), t.elsewhere()
	a := t.session(other, t.TTL)
	held := a.lease(a.hold(t.exclusive("q")))
	if err := other.process.Stop(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("processes cannot be stopped on this system")
	} else if err != nil {
		t.Fatalf("stop a process: %v", err)
	}
	next := b.behind(t.exclusive("q"))
	got := next.notBefore(held.end(), "whose process is stopped")
	t.OK(other.process.Resume(), "resume a process")
	a.over(held.ticket)
	t.stands(b.driver, "q", []driver.Ticket{got}, nil)
})

var _ = rules.Add(rule{Name: "CountingProcesses", Exclusive: true, Processes: true, Says: []string{
	theRule,
}}, func(t *trial) {
	const processes = 4
	times := t.size(100, 25)
	file := t.log()
	drivers := make([]*elsewhere, processes)
	for i := range drivers {
		drivers[i] = t.elsewhere()
	}
	t.Parallel(processes, func(i int) {
		work := task{Request: t.exclusive("q"), File: file, Times: times, TTL: 10 * limit}
		t.OK(drivers[i].Work(t.Ctx, "log", work), "the work of a process")
	})
	n := t.oneAtATime(file)
	t.FatalIf(n != processes*times, "%d processes held %d times each, and the log has %d grants", processes, times, n)
})

// Processes that are killed and stopped at any instruction: by the account of
// each, no two ever hold at the same time, and the others go on.
var _ = rules.Add(rule{Name: "ProcessesThatDie", Processes: true, Says: []string{theRule, expires, tokensGrow}},
	func(t *trial) { disturb(t, (*process.Process).Stop, nil, nil, (*process.Process).Stop) })

var _ = rules.Add(rule{Name: "ProcessesThatAreKilled", Processes: true, Says: []string{theRule, expires, tokensGrow}},
	func(t *trial) { disturb(t, nil) })

// disturb lets processes work under one lock, and now and then stops one of them
// past its TTL, or kills it if there is no stop.
func disturb(t *trial, stops ...func(*process.Process) error) {
	const processes = 4
	file := t.log()
	var ends []func()
	start := func() *elsewhere {
		d := t.elsewhere()
		ends = append(ends, t.Go(func() {
			err := d.Work(t.Ctx, "log", task{Request: t.exclusive("q"), File: file, TTL: t.TTL})
			var failed *remote.Error
			t.FatalIf(errors.As(err, &failed), "a process that worked under the lock: %v", err)
		}))
		return d
	}
	workers := make([]*elsewhere, processes)
	for i := range workers {
		workers[i] = start()
	}
	grants := func() int {
		all, err := spans(file)
		t.OK(err, "the log")
		return len(all)
	}
	goesOn := func(what string) {
		before := grants()
		t.Eventually("the others go on after "+what, func() bool {
			time.Sleep(10 * time.Millisecond)
			return grants() >= before+3
		})
	}
	goesOn("the start")
	for round := range t.size(8, 3) {
		time.Sleep(rand.N(30 * time.Millisecond)) // any instruction is right
		i := rand.IntN(processes)
		stop := stops[round%len(stops)]
		if stop == nil {
			workers[i].process.Kill()
			goesOn("a process was killed")
			workers[i] = start()
			continue
		}
		if err := stop(workers[i].process); errors.Is(err, errors.ErrUnsupported) {
			continue // on a system without signals
		} else if err != nil {
			t.Fatalf("stop a process: %v", err)
		}
		time.Sleep(t.TTL)
		goesOn("a process was stopped")
		t.OK(workers[i].process.Resume(), "resume a process")
		goesOn("it was resumed")
	}
	for _, w := range workers {
		w.process.Kill()
	}
	for _, ended := range ends {
		ended()
	}
	t.oneAtATime(file)
}

// log makes a file for processes that work under one lock.
func (t *trial) log() string {
	file := filepath.Join(t.TempDir(), "log")
	t.OK(os.WriteFile(file, nil, 0o600), "make a log")
	return file
}

// oneAtATime reads the log of those that worked under one lock, and says how many grants it has.
func (t *trial) oneAtATime(file string) int {
	all, err := spans(file)
	t.OK(err, "the log")
	// Where the clock is coarse, two can begin at the same instant, or one when another ends.
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.token, b.token))
	})
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		t.FatalIf(a.last > b.first, "%s holds until %d by its own account, and %s from %d", a.id, a.last, b.id, b.first)
		t.FatalIf(a.token >= b.token, "the grant after the one with token %d has token %d", a.token, b.token)
	}
	t.Logf("%d grants", len(all))
	return len(all)
}

// A backend in files shares them with whatever else runs in the process of a client: the kernel may
// drop locks of the whole process when any descriptor of a file is closed.
var _ = rules.Add(rule{Name: "NeighbourInTheProcess", Hook: "Files", Processes: true, Says: []string{
	theRule,
	tokensGrow,
}}, func(t *trial) {
	file := t.log()
	long := 10 * limit // what dies has to wait for nothing
	visit := func() {
		d := t.elsewhere()
		err := d.Work(t.Ctx, "log", task{Request: t.exclusive("q"), File: file, TTL: long, Times: 1})
		t.OK(errors.Join(err, d.Close()), "a process that comes and goes")
	}
	visit() // makes the files
	files := t.world.Files()
	stay := make(chan error, 3)
	for range cap(stay) {
		d := t.elsewhere()
		t.Calls.Go(func() {
			stay <- d.Work(t.Ctx, "log", task{Request: t.exclusive("q"), File: file, TTL: long, Neighbours: files})
		})
	}
	for range t.size(20, 6) { // the last that ends, and the first that comes, may clean up
		visit()
	}
	t.FatalIf(len(stay) > 0, "a process in which a neighbour opens and closes files has ended")
	t.oneAtATime(file)
})

var _ = rules.Add(rule{Name: "Liveness", Processes: true, Says: []string{
	"Liveness is the open files whose last close, in whatever process, is this session's death; a child that inherits them keeps the session from ending early.",
}}, func(t *trial) {
	d, shut := t.guest()
	a, b := t.session(d, 10*limit), t.client()
	files := a.Liveness
	if len(files) == 0 || runtime.GOOS == "windows" {
		t.Skip("the sessions of this backend live in no file that a child can inherit")
	}
	held := a.hold(t.exclusive("q"))
	next := b.wait(t.exclusive("q"))
	b.beat(next)
	child := t.process(files...)
	t.OK(shut(), "Close")
	ctx, cancel := context.WithTimeout(t.Ctx, 500*time.Millisecond)
	defer cancel()
	if got, err := b.Await(ctx, next); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a child has inherited what keeps the session alive, and the next ticket is %+v, %v", got, err)
	}
	t.stands(b.driver, "q", []driver.Ticket{held}, []driver.Ticket{next})
	child.Kill()
	t.FatalIf(!b.await(next).Inherited, "the next holder does not inherit from a session that died")

	// The death of the only owner is noticed long before the TTL.
	other := t.elsewhere()
	c := t.session(other, 10*limit)
	c.hold(t.exclusive("r"))
	c.hold(t.exclusive("followed"))
	vacated := t.vacated("followed")
	next = b.wait(t.exclusive("r"))
	b.beat(next)
	other.process.Kill()
	b.await(next)
	vacated()
})
