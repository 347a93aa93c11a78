package drivertest

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A mutant breaks a driver on purpose, so that the suite can show that it bites.
// Its methods stand for the driver's; those that are nil are the driver's own.
// They are given the wrapped driver or session, to which they pass what they
// leave right.
type mutant struct {
	open     func(d *broken, ctx context.Context, o driver.SessionOptions) (*driver.Opened, error)
	load     func(d *broken, ctx context.Context, name string) (driver.Cell, error)
	swap     func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error)
	watch    func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error)
	follow   func(d *broken, ctx context.Context, queue, after string) (driver.Queue, error)
	queues   func(d *broken, ctx context.Context, prefix string) iter.Seq2[driver.Queue, error]
	cells    func(d *broken, ctx context.Context, prefix string) iter.Seq2[string, error]
	ask      func(d *broken, ctx context.Context, queue, id string, what driver.Demand) error
	raise    func(d *broken, ctx context.Context, queue string, floor uint64) error
	resize   func(d *broken, ctx context.Context, queue string, capacity int64) error
	check    func(d *broken, ctx context.Context) []driver.Finding
	count    func(d *broken) uint64
	shut     func(d *broken) error
	now      func(d *broken) driver.Instant
	id       func(d *broken) string
	join     func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error)
	await    func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error)
	shrink   func(s *brokenSession, ctx context.Context, t driver.Ticket, units int64) error
	keep     func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error
	leave    func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error
	renew    func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error)
	signals  func(s *brokenSession, ctx context.Context) (driver.Signal, error)
	liveness func() []*os.File
	close    func(s *brokenSession, ctx context.Context) error
	world    func(w *World)
}

// notes is what the mutants of one world remember.
type notes struct {
	mu     sync.Mutex
	seen   map[string]bool
	alias  map[string]string // the true ID of a ticket
	public map[string]string // and back
	owner  map[string]*brokenSession
	last   map[string]string
	number int

	changing atomic.Bool // a ticket, just now
}

func newNotes() *notes {
	return &notes{seen: map[string]bool{}, alias: map[string]string{}, public: map[string]string{}, owner: map[string]*brokenSession{}, last: map[string]string{}}
}

// once is true the first time that it is asked for the key.
func (n *notes) once(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.seen[key]
	n.seen[key] = true
	return first
}

// deleted are the names of cells that a mutant has noted.
func (n *notes) deleted() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.seen {
		if name, ok := strings.CutPrefix(key, "deleted "); ok {
			names = append(names, name)
		}
	}
	return names
}

func (n *notes) next() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	return n.number
}

// real returns the ID under which the driver knows a ticket.
func (n *notes) real(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.alias[id]; ok {
		return a
	}
	return id
}

// rename makes the driver know a ticket by a new ID.
func (n *notes) rename(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set(id, newID())
	return n.alias[id]
}

// swap exchanges the places of two tickets.
func (n *notes) swap(a, b string) {
	ra, rb := n.real(a), n.real(b)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set(a, rb)
	n.set(b, ra)
}

func (n *notes) set(id, real string) { n.alias[id], n.public[real] = real, id }

func (n *notes) shown(real string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.public[real]; ok {
		return id
	}
	return real
}

// breed returns a world whose drivers are broken.
func (m *mutant) breed(world func(testing.TB) World) func(testing.TB) World {
	return func(t testing.TB) World {
		w := world(t)
		open := w.Open
		n := newNotes()
		w.Open = func(ctx context.Context) (driver.Driver, error) {
			d, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return &broken{Driver: d, m: m, n: n}, nil
		}
		if m.world != nil {
			m.world(&w)
		}
		return w
	}
}

type broken struct {
	driver.Driver
	m     *mutant
	n     *notes
	extra uint64 // exchanges
	mu    sync.Mutex
}

func (d *broken) spend(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.extra += uint64(n)
}

func (d *broken) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	if d.m.open != nil {
		return d.m.open(d, ctx, o)
	}
	return d.session(ctx, o)
}

func (d *broken) session(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	s, err := d.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.Session = &brokenSession{Session: s.Session, id: s.ID, ttl: s.TTL, d: d, m: d.m, n: d.n}
	if d.m.id != nil {
		s.ID = d.m.id(d)
	}
	if d.m.liveness != nil {
		s.Liveness = d.m.liveness()
	}
	return s, nil
}

func (d *broken) Load(ctx context.Context, name string) (driver.Cell, error) {
	if d.m.load != nil {
		return d.m.load(d, ctx, name)
	}
	return d.Driver.Load(ctx, name)
}

func (d *broken) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	if d.m.swap != nil {
		return d.m.swap(d, ctx, s)
	}
	return d.Driver.Swap(ctx, s)
}

func (d *broken) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	if d.m.watch != nil {
		return d.m.watch(d, ctx, name, after)
	}
	return d.Driver.Watch(ctx, name, after)
}

func (d *broken) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	if d.m.follow != nil {
		return d.m.follow(d, ctx, queue, after)
	}
	return d.plainFollow(ctx, queue, after)
}

func (d *broken) plainFollow(ctx context.Context, queue, after string) (driver.Queue, error) {
	q, err := d.Driver.Follow(ctx, queue, after)
	for i := range q.Members {
		q.Members[i].ID = d.n.shown(q.Members[i].ID)
	}
	return q, err
}

func (d *broken) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	if d.m.queues != nil {
		return d.m.queues(d, ctx, prefix)
	}
	return d.Driver.Queues(ctx, prefix)
}

func (d *broken) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if d.m.cells != nil {
		return d.m.cells(d, ctx, prefix)
	}
	return d.Driver.Cells(ctx, prefix)
}

func (d *broken) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	id = d.n.real(id)
	if d.m.ask != nil {
		return d.m.ask(d, ctx, queue, id, what)
	}
	return d.Driver.Ask(ctx, queue, id, what)
}

func (d *broken) Resize(ctx context.Context, queue string, capacity int64) error {
	if d.m.resize != nil {
		return d.m.resize(d, ctx, queue, capacity)
	}
	return d.Driver.Resize(ctx, queue, capacity)
}

func (d *broken) Raise(ctx context.Context, queue string, floor uint64) error {
	if d.m.raise != nil {
		return d.m.raise(d, ctx, queue, floor)
	}
	return d.Driver.Raise(ctx, queue, floor)
}

func (d *broken) Check(ctx context.Context) []driver.Finding {
	if d.m.check != nil {
		return d.m.check(d, ctx)
	}
	return d.Driver.Check(ctx)
}

func (d *broken) Exchanges() uint64 {
	if d.m.count != nil {
		return d.m.count(d)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Driver.Exchanges() + d.extra
}

func (d *broken) Now() driver.Instant {
	if d.m.now != nil {
		return d.m.now(d)
	}
	return d.Driver.Now()
}

func (d *broken) Close() error {
	if d.m.shut != nil {
		return d.m.shut(d)
	}
	return d.Driver.Close()
}

type brokenSession struct {
	driver.Session
	id  string
	ttl time.Duration
	d   *broken
	m   *mutant
	n   *notes
}

func (s *brokenSession) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	s.n.mu.Lock()
	s.n.owner[r.ID] = s
	s.n.mu.Unlock()
	if s.m.join != nil {
		return s.m.join(s, ctx, r)
	}
	return s.plainJoin(ctx, r)
}

func (s *brokenSession) plainJoin(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	id := r.ID
	r.ID = s.n.real(id)
	tk, err := s.Session.Join(ctx, r)
	if err == nil {
		tk.ID = id
	}
	return tk, err
}

func (s *brokenSession) real(t driver.Ticket) driver.Ticket {
	t.ID = s.n.real(t.ID)
	return t
}

func (s *brokenSession) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	if s.m.await != nil {
		return s.m.await(s, ctx, t)
	}
	return s.plainAwait(ctx, t)
}

func (s *brokenSession) plainAwait(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	got, err := s.Session.Await(ctx, s.real(t))
	if err == nil {
		got.ID = t.ID
	}
	return got, err
}

// peek returns the ticket if it is held now.
func (s *brokenSession) peek(t driver.Ticket) (driver.Ticket, bool) {
	q, err := s.d.plainFollow(context.Background(), t.Queue, "")
	for _, m := range q.Members {
		if err == nil && m.ID == t.ID {
			t.Held, t.Token, t.Proof = m.Held, m.Token, q.Read
			return t, m.Held
		}
	}
	return t, false
}

func (s *brokenSession) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	if s.m.shrink != nil {
		return s.m.shrink(s, ctx, t, units)
	}
	return s.Session.Shrink(ctx, s.real(t), units)
}

func (s *brokenSession) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	if s.m.keep != nil {
		return s.m.keep(s, ctx, t, d)
	}
	return s.Session.Keep(ctx, s.real(t), d)
}

func (s *brokenSession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if s.m.leave != nil {
		return s.m.leave(s, ctx, t, clean)
	}
	return s.Session.Leave(ctx, s.real(t), clean)
}

func (s *brokenSession) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if s.m.renew != nil {
		return s.m.renew(s, ctx, known)
	}
	return s.plainRenew(ctx, known)
}

func (s *brokenSession) plainRenew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	var all []driver.Ticket
	for _, t := range known {
		all = append(all, s.real(t))
	}
	answer, err := s.Session.Renew(ctx, all)
	for i := range answer {
		answer[i].ID = s.n.shown(answer[i].ID)
	}
	return answer, err
}

func (s *brokenSession) Signals(ctx context.Context) (driver.Signal, error) {
	if s.m.signals != nil {
		return s.m.signals(s, ctx)
	}
	return s.Session.Signals(ctx)
}

func (s *brokenSession) Close(ctx context.Context) error {
	if s.m.close != nil {
		return s.m.close(s, ctx)
	}
	return s.Session.Close(ctx)
}

// A recorder is what a rule takes for its test: it notes the failure.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	failed  bool
	skipped bool
	message string
}

func (r *recorder) fail(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.failed, r.message = true, message
	}
}

func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Fail()                             { r.fail("Fail") }
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Log(...any)                        {}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) FailNow() {
	r.fail("FailNow")
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) SkipNow() {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Skip(...any)          { r.SkipNow() }
func (r *recorder) Skipf(string, ...any) { r.SkipNow() }

// verdict checks a rule and returns the failure, "" if there is none.
func verdict(r rule, t testing.TB, b Backend, v string) string {
	rec := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				rec.fail(fmt.Sprintf("panic: %v", p))
			}
		}()
		check(rec, r, b, v)
	}()
	<-done
	if rec.skipped {
		return ""
	}
	return rec.message
}
