// Package broken has drivers that are broken on purpose, each in the way of a known mistake: the lab has to catch them.
package broken

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/lab/check"
)

// A Break is one mistake.
type Break struct {
	Name     string
	About    string
	Caught   string // the promise that it breaks
	Workload string // that suffers
	wrap     func(*session) driver.Session
	load     func(d *broken, ctx context.Context, name string) (driver.Cell, error)
	swap     func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error)
	resize   func(d *broken, ctx context.Context, queue string, n int64) error
	close    func(d *broken) error
}

// All are the mistakes.
var All = []Break{
	{Name: "owner", About: "a release does not look whose lock it is", Caught: check.Exclusion, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &careless{s} }},
	{Name: "deadline", About: "a lease is trusted after its deadline", Caught: check.Exclusion, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &trusting{s} }},
	{Name: "token", About: "tokens are counted in memory", Caught: check.Tokens, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &forgetful{session: s} }},
	{Name: "wakeup", About: "now and then a waiter is not woken", Caught: check.Waiters, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &deaf{s} }},
	{Name: "twice", About: "a request that is repeated queues twice", Caught: check.Waiters, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &doubling{session: s} }},
	{Name: "dead", About: "the lock is handed to a client that is dead", Caught: check.Waiters, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &undying{s} }, close: (*broken).haunt},
	{Name: "capacity", About: "a reader gets in beside a writer", Caught: check.Exclusion, Workload: "rw",
		wrap: func(s *session) driver.Session { return &roomy{s} }},
	{Name: "fair", About: "who begins to wait goes behind the others", Caught: check.Fair, Workload: "fair",
		wrap: func(s *session) driver.Session { return &polite{session: s} }},
	{Name: "stale", About: "a value is read from a cache", Caught: check.Order, Workload: "value",
		load: (*broken).cached},
	{Name: "swap", About: "a value is replaced without a look at its version", Caught: check.Order, Workload: "value",
		swap: (*broken).blind},
	{Name: "permits", About: "another number of permits is confirmed, and forgotten", Caught: check.Order,
		Workload: "resized",
		resize:   func(*broken, context.Context, string, int64) error { return nil }},
}

// Wrap breaks a driver.
func (b Break) Wrap(d driver.Driver) driver.Driver {
	return &broken{Driver: d, Break: b, cells: map[string]driver.Cell{}}
}

type broken struct {
	driver.Driver
	Break

	mu    sync.Mutex
	cells map[string]driver.Cell
	last  *session
	dead  atomic.Bool
}

// session is what all broken sessions have: the tickets that they know.
type session struct {
	driver.Session
	d   *broken
	ttl time.Duration
	n   atomic.Uint64

	mu    sync.Mutex
	known map[string]driver.Ticket
}

func (d *broken) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	opened, err := d.Driver.Open(ctx, o)
	if err != nil || d.wrap == nil {
		return opened, err
	}
	s := &session{Session: opened.Session, d: d, ttl: opened.TTL, known: map[string]driver.Ticket{}}
	d.mu.Lock()
	d.last = s
	d.mu.Unlock()
	mine := *opened
	mine.Session = d.wrap(s)
	return &mine, nil
}

func (d *broken) Load(ctx context.Context, name string) (driver.Cell, error) {
	if d.load != nil {
		return d.load(d, ctx, name)
	}
	return d.Driver.Load(ctx, name)
}

func (d *broken) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	if d.swap != nil {
		return d.swap(d, ctx, s)
	}
	return d.Driver.Swap(ctx, s)
}

func (d *broken) Resize(ctx context.Context, queue string, n int64) error {
	if d.resize != nil {
		return d.resize(d, ctx, queue, n)
	}
	return d.Driver.Resize(ctx, queue, n)
}

func (d *broken) Close() error {
	if d.close != nil {
		return d.close(d)
	}
	return d.Driver.Close()
}

func (d *broken) cached(ctx context.Context, name string) (driver.Cell, error) {
	c, err := d.Driver.Load(ctx, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.cells[name]; ok && err == nil && old.Version != c.Version {
		delete(d.cells, name)
		return old, nil
	}
	d.cells[name] = c
	return c, err
}

func (d *broken) blind(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	c, err := d.Driver.Swap(ctx, s)
	if errors.Is(err, driver.ErrConflict) {
		if c, err = d.Driver.Load(ctx, s.Name); err == nil {
			s.Version = c.Version
			return d.Driver.Swap(ctx, s)
		}
	}
	return c, err
}

// careless removes the holder.
type careless struct{ *session }

func (s *careless) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	q, err := s.d.Driver.Follow(ctx, t.Queue, "")
	if err == nil && len(q.Members) > 0 && q.Members[0].Held && q.Members[0].ID != t.ID {
		return s.d.Ask(ctx, t.Queue, q.Members[0].ID, driver.Force)
	}
	return s.Session.Leave(ctx, t, clean)
}

// trusting believes that what it held goes on.
type trusting struct{ *session }

func (s *trusting) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	_, _ = s.Session.Renew(ctx, known)
	all := make([]driver.Renewed, len(known))
	for i, t := range known {
		all[i] = driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Kept, Proof: s.d.Now()}
	}
	return all, nil
}

func (s *trusting) Signals(ctx context.Context) (driver.Signal, error) {
	<-ctx.Done()
	return driver.Signal{}, context.Cause(ctx)
}

// forgetful counts tokens for itself.
type forgetful struct {
	*session
}

func (s *forgetful) count(t driver.Ticket, err error) (driver.Ticket, error) {
	if t.Held {
		t.Token = s.n.Add(1)
	}
	return t, err
}

func (s *forgetful) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	return s.count(s.Session.Join(ctx, r))
}

func (s *forgetful) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	return s.count(s.Session.Await(ctx, t))
}

// deaf does not hear of every fifth grant.
type deaf struct{ *session }

func (s *deaf) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	got, err := s.Session.Await(ctx, t)
	if err == nil && s.n.Add(1)%5 == 0 {
		<-ctx.Done()
		return t, context.Cause(ctx)
	}
	return got, err
}

// doubling gives a repeated request another ticket, and keeps both.
type doubling struct {
	*session
}

func (s *doubling) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	t, err := s.Session.Join(ctx, r)
	if err != nil || r.Retry {
		again := r
		again.ID, again.Retry, again.NoWait = r.ID[:len(r.ID)-1]+string("0123456789abcdef"[s.n.Add(1)%16]), false, false
		if ghost, err := s.Session.Join(context.WithoutCancel(ctx), again); err == nil {
			s.mu.Lock()
			s.known[ghost.ID] = ghost
			s.mu.Unlock()
		}
	}
	return t, err
}

func (s *doubling) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	s.mu.Lock()
	all := append([]driver.Ticket(nil), known...)
	for _, ghost := range s.known {
		all = append(all, ghost)
	}
	s.mu.Unlock()
	return s.Session.Renew(ctx, all)
}

// undying keeps its tickets when its client is dead.
type undying struct{ *session }

var errDead = errors.New("the client is dead")

func (s *undying) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	if s.d.dead.Load() {
		return errDead
	}
	return s.Session.Leave(ctx, t, clean)
}

func (s *undying) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	got, err := s.Session.Await(ctx, t)
	if s.d.dead.Load() {
		return t, errDead
	}
	return got, err
}

func (s *undying) Close(ctx context.Context) error {
	if s.d.dead.Load() {
		return errDead
	}
	return s.Session.Close(ctx)
}

func (s *undying) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if s.d.dead.Load() {
		return nil, errDead
	}
	s.mu.Lock()
	clear(s.known)
	for _, t := range known {
		s.known[t.ID] = t
	}
	s.mu.Unlock()
	return s.Session.Renew(ctx, known)
}

func (s *undying) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if s.d.dead.Load() {
		return driver.Ticket{}, errDead
	}
	t, err := s.Session.Join(ctx, r)
	if err == nil {
		s.mu.Lock()
		s.known[t.ID] = t
		s.mu.Unlock()
	}
	return t, err
}

// haunt goes on renewing for ten minutes.
func (d *broken) haunt() error {
	s := d.last
	d.dead.Store(true)
	go func() {
		for range int(10 * time.Minute / (s.ttl / 3)) {
			s.mu.Lock()
			var known []driver.Ticket
			for _, t := range s.known {
				known = append(known, t)
			}
			s.mu.Unlock()
			_, _ = s.Session.Renew(context.Background(), known)
			time.Sleep(s.ttl / 3)
		}
		_ = d.Driver.Close()
	}()
	return nil
}

// roomy has room for a reader more.
type roomy struct{ *session }

func (s *roomy) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if r.Kind == driver.RWMutex {
		r.Capacity++
	}
	return s.Session.Join(ctx, r)
}

// polite goes to the end of the line when it begins to wait. Its tickets have other IDs there.
type polite struct {
	*session
	requests, alias, real sync.Map
}

func (s *polite) to(t driver.Ticket) driver.Ticket {
	if id, ok := s.alias.Load(t.ID); ok {
		t.ID = id.(string)
	}
	return t
}

func (s *polite) from(id string) string {
	if real, ok := s.real.Load(id); ok {
		return real.(string)
	}
	return id
}

func (s *polite) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	s.requests.Store(r.ID, r)
	return s.Session.Join(ctx, r)
}

func (s *polite) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	again, waits := s.requests.LoadAndDelete(t.ID)
	if waits && !t.Held {
		time.Sleep(s.ttl / 20) // long enough to be seen in front
		r := again.(driver.Request)
		r.ID = r.ID[1:] + r.ID[:1]
		if s.Session.Leave(ctx, t, true) == nil {
			s.alias.Store(t.ID, r.ID)
			s.real.Store(r.ID, t.ID)
			if got, err := s.Session.Join(ctx, r); err != nil || got.Held {
				got.ID = t.ID
				return got, err
			}
		}
	}
	got, err := s.Session.Await(ctx, s.to(t))
	got.ID = s.from(got.ID)
	return got, err
}

func (s *polite) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return s.Session.Leave(ctx, s.to(t), clean)
}

func (s *polite) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	var all []driver.Ticket
	for _, t := range known {
		all = append(all, s.to(t))
	}
	got, err := s.Session.Renew(ctx, all)
	for i := range got {
		got[i].ID = s.from(got[i].ID)
	}
	return got, err
}
