// Package broken has drivers that are broken on purpose, each in the way of a known mistake: the lab has to catch them.
package broken

import (
	"context"
	"errors"
	"maps"
	"slices"
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
	driver   func(*broken) driver.Driver
}

// All are the mistakes.
var All = []Break{
	{Name: "owner", About: "a release does not look whose lock it is", Caught: check.Exclusion, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &careless{s} }},
	{Name: "deadline", About: "a lease is trusted after its deadline", Caught: check.Exclusion, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &trusting{s} }},
	{Name: "token", About: "tokens are counted in memory", Caught: check.Tokens, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &forgetful{s} }},
	{Name: "wakeup", About: "now and then a waiter is not woken", Caught: check.Waiters, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &deaf{s} }},
	{Name: "twice", About: "a request that is repeated queues twice", Caught: check.Waiters, Workload: "mutex",
		wrap: func(s *session) driver.Session { return &doubling{s} }},
	{Name: "dead", About: "the lock is handed to a client that is dead", Caught: check.Waiters, Workload: "mutex",
		wrap:   func(s *session) driver.Session { return &undying{s} },
		driver: func(d *broken) driver.Driver { return haunted{d} }},
	{Name: "capacity", About: "a reader gets in beside a writer", Caught: check.Exclusion, Workload: "rw",
		wrap: func(s *session) driver.Session { return &roomy{s} }},
	{Name: "fair", About: "who begins to wait goes behind the others", Caught: check.Fair, Workload: "fair",
		wrap: func(s *session) driver.Session { return &polite{session: s} }},
	{Name: "stale", About: "a value is read from a cache", Caught: check.Order, Workload: "value",
		driver: func(d *broken) driver.Driver { return cached{d} }},
	{Name: "swap", About: "a value is replaced without a look at its version", Caught: check.Order, Workload: "value",
		driver: func(d *broken) driver.Driver { return blind{d} }},
	{Name: "permits", About: "another number of permits is confirmed, and forgotten", Caught: check.Order,
		Workload: "resized", driver: func(d *broken) driver.Driver { return rigid{d} }},
}

// Named returns what breaks a driver; nil: none has this name.
func Named(name string) func(driver.Driver) driver.Driver {
	for _, b := range All {
		if b.Name == name {
			return b.Wrap
		}
	}
	return nil
}

// Wrap breaks a driver.
func (b Break) Wrap(d driver.Driver) driver.Driver {
	mine := &broken{Driver: d, Break: b, cells: map[string]driver.Cell{}}
	if b.driver != nil {
		return b.driver(mine)
	}
	return mine
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

func (s *session) learn(tickets ...driver.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tickets {
		s.known[t.ID] = t
	}
}

func (s *session) tickets() []driver.Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.known))
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

// rigid forgets numbers of permits.
type rigid struct{ *broken }

func (rigid) Resize(context.Context, string, int64) error { return nil }

// cached reads each value once more.
type cached struct{ *broken }

func (d cached) Load(ctx context.Context, name string) (driver.Cell, error) {
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

// blind replaces all versions.
type blind struct{ *broken }

func (d blind) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
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
type forgetful struct{ *session }

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
type doubling struct{ *session }

func (s *doubling) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	t, err := s.Session.Join(ctx, r)
	if err != nil || r.Retry {
		again := r
		again.ID, again.Retry, again.NoWait = r.ID[:len(r.ID)-1]+string("0123456789abcdef"[s.n.Add(1)%16]), false, false
		if ghost, err := s.Session.Join(context.WithoutCancel(ctx), again); err == nil {
			s.learn(ghost)
		}
	}
	return t, err
}

func (s *doubling) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	return s.Session.Renew(ctx, append(s.tickets(), known...))
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
	s.mu.Unlock()
	s.learn(known...)
	return s.Session.Renew(ctx, known)
}

func (s *undying) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	if s.d.dead.Load() {
		return driver.Ticket{}, errDead
	}
	t, err := s.Session.Join(ctx, r)
	if err == nil {
		s.learn(t)
	}
	return t, err
}

// haunted goes on renewing for ten minutes when it is closed.
type haunted struct{ *broken }

func (d haunted) Close() error {
	s := d.last
	d.dead.Store(true)
	go func() {
		for range int(10 * time.Minute / (s.ttl / 3)) {
			_, _ = s.Session.Renew(context.Background(), s.tickets())
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
