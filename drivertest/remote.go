package drivertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/rpc"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// A remote driver lives in another process: rules about several clients are
// checked once more with each client in a process of its own.

// Call is one call of a remote driver.
type Call struct {
	ID      uint64 // for cancelling it
	Op      string
	Session int
	Timeout time.Duration

	URL     string
	Options driver.SessionOptions
	Request driver.Request
	Ticket  driver.Ticket
	Known   []driver.Ticket
	Swap    driver.Swap
	Name    string
	ID2     string
	After   uint64
	Version string
	Units   int64
	For     time.Duration
	Clean   bool
	Demand  driver.Demand
	Work    Work
}

// Reply is its result.
type Reply struct {
	Session  int
	TTL      time.Duration
	ID       string
	Now      driver.Instant
	Ticket   driver.Ticket
	Renewed  []driver.Renewed
	Signal   driver.Signal
	Cell     driver.Cell
	Queue    driver.Queue
	Queues   []driver.Queue
	Findings []driver.Finding
	Count    uint64

	Error     string // "" if there was none
	Known     int    // one more than its index in knownErrors
	Permanent bool
}

var knownErrors = []error{
	driver.ErrBusy, driver.ErrMismatch, driver.ErrGone, driver.ErrSession, driver.ErrConflict, driver.ErrInvalid, driver.ErrTooLarge,
	context.Canceled, context.DeadlineExceeded, errors.ErrUnsupported,
}

// RemoteClient serves the calls in the other process.
type RemoteClient struct {
	mu       sync.Mutex
	driver   driver.Driver
	sessions []driver.Session
	cancel   map[uint64]context.CancelFunc
}

func newRemoteClient() *RemoteClient {
	return &RemoteClient{cancel: map[uint64]context.CancelFunc{}}
}

// Do makes a call.
func (s *RemoteClient) Do(c Call, r *Reply) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	s.cancel[c.ID] = cancel
	d := s.driver
	var session driver.Session
	if c.Session > 0 {
		session = s.sessions[c.Session-1]
	}
	s.mu.Unlock()
	err := s.do(ctx, d, session, c, r)
	s.mu.Lock()
	delete(s.cancel, c.ID)
	s.mu.Unlock()
	if err == nil {
		return nil
	}
	r.Error, r.Permanent = err.Error(), driver.IsPermanent(err)
	for i, known := range knownErrors {
		if errors.Is(err, known) {
			r.Known = i + 1
		}
	}
	return nil
}

// Cancel ends a call.
func (s *RemoteClient) Cancel(id uint64, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancel[id]; cancel != nil {
		cancel()
	}
	return nil
}

func (s *RemoteClient) do(ctx context.Context, d driver.Driver, session driver.Session, c Call, r *Reply) (err error) {
	switch c.Op {
	case "dial":
		if d == nil {
			u, err := driver.ParseURL(c.URL)
			if err != nil {
				return err
			}
			if d, err = driver.OpenURL(ctx, u); err != nil {
				return err
			}
			s.mu.Lock()
			s.driver = d
			s.mu.Unlock()
		}
		r.Now = d.Now()
	case "Open":
		o, err := d.Open(ctx, c.Options)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.sessions = append(s.sessions, o)
		r.Session = len(s.sessions)
		s.mu.Unlock()
		r.ID, r.TTL = o.ID(), o.TTL()
	case "Load":
		r.Cell, err = d.Load(ctx, c.Name)
	case "Swap":
		r.Cell, err = d.Swap(ctx, c.Swap)
	case "Watch":
		r.Cell, err = d.Watch(ctx, c.Name, c.After)
	case "Follow":
		r.Queue, err = d.Follow(ctx, c.Name, c.Version)
	case "Queues":
		for q, err := range d.Queues(ctx, c.Name) {
			if err != nil {
				return err
			}
			r.Queues = append(r.Queues, q)
		}
	case "Ask":
		err = d.Ask(ctx, c.Name, c.ID2, c.Demand)
	case "Raise":
		err = d.Raise(ctx, c.Name, c.After)
	case "Check":
		r.Findings = d.Check(ctx)
	case "Exchanges":
		r.Count = d.Exchanges()
	case "Close":
		err = d.Close()
	case "Join":
		r.Ticket, err = session.Join(ctx, c.Request)
	case "Await":
		r.Ticket, err = session.Await(ctx, c.Ticket)
	case "Shrink":
		err = session.Shrink(ctx, c.Ticket, c.Units)
	case "Keep":
		err = session.Keep(ctx, c.Ticket, c.For)
	case "Leave":
		err = session.Leave(ctx, c.Ticket, c.Clean)
	case "Renew":
		r.Renewed, err = session.Renew(ctx, c.Known)
	case "Signals":
		r.Signal, err = session.Signals(ctx)
	case "CloseSession":
		err = session.Close(ctx)
	case "Count":
		err = count(ctx, d, c.Work)
	case "Log":
		err = work(ctx, d, c.Work)
	default:
		err = fmt.Errorf("no such call: %s", c.Op)
	}
	return err
}

// remoteError is an error of the other process.
type remoteError struct {
	message string
	known   error // nil if it is none of knownErrors
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.known }

func (r *Reply) err() error {
	if r.Error == "" {
		return nil
	}
	e := &remoteError{message: r.Error}
	if r.Known > 0 {
		e.known = knownErrors[r.Known-1]
	} else if r.Permanent {
		return driver.Permanent(e)
	}
	return e
}

// remote is the driver's side in this process.
type remote struct {
	process *process
	rpc     *rpc.Client
	offset  time.Duration // from the clock of the other process to this one's
	calls   atomic.Uint64
}

// dial opens the URL in the other process.
func (p *process) dial(ctx context.Context, url string) (*remote, error) {
	d := &remote{process: p, rpc: p.rpc}
	return d, d.dial(ctx, url)
}

func (d *remote) dial(ctx context.Context, url string) error {
	before := driver.Now()
	r, err := d.do(ctx, Call{Op: "dial", URL: url})
	if err != nil {
		return err
	}
	if r.Now < before || r.Now > driver.Now() { // its clock is another
		d.offset = before.Sub(r.Now)
	}
	return nil
}

// do makes a call in the other process and waits for its reply or for the end
// of the context: a stopped process never answers.
func (d *remote) do(ctx context.Context, c Call) (*Reply, error) {
	if err := ctx.Err(); err != nil {
		return &Reply{}, err
	}
	c.ID = d.calls.Add(1)
	r := &Reply{}
	call := d.rpc.Go("Client.Do", c, r, nil)
	select {
	case <-call.Done:
		if call.Error != nil {
			return &Reply{}, call.Error
		}
		return r, r.err()
	case <-ctx.Done():
		d.rpc.Go("Client.Cancel", c.ID, &struct{}{}, nil)
		return &Reply{}, ctx.Err()
	}
}

func (d *remote) local(t driver.Ticket) driver.Ticket {
	t.Proof = t.Proof.Add(d.offset)
	return t
}

func (d *remote) Open(ctx context.Context, o driver.SessionOptions) (driver.Session, error) {
	r, err := d.do(ctx, Call{Op: "Open", Options: o})
	if err != nil {
		return nil, err
	}
	return &remoteSession{d, r.Session, r.ID, r.TTL}, nil
}

func (d *remote) Now() driver.Instant { return driver.Now() }

func (d *remote) Load(ctx context.Context, name string) (driver.Cell, error) {
	r, err := d.do(ctx, Call{Op: "Load", Name: name})
	return r.Cell, err
}

func (d *remote) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	r, err := d.do(ctx, Call{Op: "Swap", Swap: s})
	return r.Cell, err
}

func (d *remote) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	r, err := d.do(ctx, Call{Op: "Watch", Name: name, After: after})
	return r.Cell, err
}

func (d *remote) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	r, err := d.do(ctx, Call{Op: "Follow", Name: queue, Version: after})
	r.Queue.Read = r.Queue.Read.Add(d.offset)
	return r.Queue, err
}

func (d *remote) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		r, err := d.do(ctx, Call{Op: "Queues", Name: prefix})
		if err != nil {
			yield(driver.Queue{}, err)
			return
		}
		for _, q := range r.Queues {
			if !yield(q, nil) {
				return
			}
		}
	}
}

func (d *remote) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	_, err := d.do(ctx, Call{Op: "Ask", Name: queue, ID2: id, Demand: what})
	return err
}

func (d *remote) Raise(ctx context.Context, queue string, floor uint64) error {
	_, err := d.do(ctx, Call{Op: "Raise", Name: queue, After: floor})
	return err
}

func (d *remote) Check(ctx context.Context) []driver.Finding {
	r, err := d.do(ctx, Call{Op: "Check"})
	if err != nil {
		return []driver.Finding{{Check: "process", Status: driver.Fail, Detail: err.Error()}}
	}
	return r.Findings
}

func (d *remote) Exchanges() uint64 {
	r, _ := d.do(context.Background(), Call{Op: "Exchanges"})
	return r.Count
}

func (d *remote) Close() error {
	_, err := d.do(context.Background(), Call{Op: "Close"})
	if d.process == nil {
		return errors.Join(err, d.rpc.Close())
	}
	return errors.Join(err, d.process.end())
}

type remoteSession struct {
	d   *remote
	n   int
	id  string
	ttl time.Duration
}

func (s *remoteSession) ID() string         { return s.id }
func (s *remoteSession) TTL() time.Duration { return s.ttl }

func (s *remoteSession) Join(ctx context.Context, q driver.Request) (driver.Ticket, error) {
	r, err := s.d.do(ctx, Call{Op: "Join", Session: s.n, Request: q})
	return s.d.local(r.Ticket), err
}

func (s *remoteSession) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	r, err := s.d.do(ctx, Call{Op: "Await", Session: s.n, Ticket: t})
	return s.d.local(r.Ticket), err
}

func (s *remoteSession) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	_, err := s.d.do(ctx, Call{Op: "Shrink", Session: s.n, Ticket: t, Units: units})
	return err
}

func (s *remoteSession) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	_, err := s.d.do(ctx, Call{Op: "Keep", Session: s.n, Ticket: t, For: d})
	return err
}

func (s *remoteSession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	_, err := s.d.do(ctx, Call{Op: "Leave", Session: s.n, Ticket: t, Clean: clean})
	return err
}

func (s *remoteSession) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	r, err := s.d.do(ctx, Call{Op: "Renew", Session: s.n, Known: known})
	for i := range r.Renewed {
		r.Renewed[i].Proof = r.Renewed[i].Proof.Add(s.d.offset)
	}
	return r.Renewed, err
}

func (s *remoteSession) Signals(ctx context.Context) (driver.Signal, error) {
	r, err := s.d.do(ctx, Call{Op: "Signals", Session: s.n})
	return r.Signal, err
}

func (s *remoteSession) Liveness() []*os.File { return nil }

func (s *remoteSession) Close(ctx context.Context) error {
	_, err := s.d.do(ctx, Call{Op: "CloseSession", Session: s.n})
	return err
}
