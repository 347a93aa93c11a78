package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// Work is what a process does with a driver on its own.
type Work func(ctx context.Context, d driver.Driver, args []byte) error

// Serve serves calls until the other side hangs up. The driver is opened by the
// URL of the first call if it is nil, and closed at the end.
func Serve(conn io.ReadWriteCloser, d driver.Driver, work map[string]Work) {
	s := &Server{driver: d, work: work, cancel: map[uint64]context.CancelFunc{}, early: map[uint64]bool{}}
	r := rpc.NewServer()
	if err := r.RegisterName("Server", s); err != nil {
		panic(err)
	}
	r.ServeConn(conn)
	if s.driver != nil {
		s.driver.Close()
	}
}

// Server has the methods that are called over the connection.
type Server struct {
	mu       sync.Mutex
	driver   driver.Driver
	sessions []driver.Session
	cancel   map[uint64]context.CancelFunc
	early    map[uint64]bool // cancelled before they have begun
	work     map[string]Work
}

// Do makes a call.
func (s *Server) Do(c Call, r *Reply) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	s.cancel[c.ID] = cancel
	if s.early[c.ID] {
		cancel()
	}
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
func (s *Server) Cancel(id uint64, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancel[id]; cancel != nil {
		cancel()
	} else {
		s.early[id] = true // or it is over
	}
	return nil
}

func (s *Server) do(ctx context.Context, d driver.Driver, session driver.Session, c Call, r *Reply) (err error) {
	if d == nil && session == nil && c.Op != "Dial" { // a call that Close has overtaken
		return errors.New("the driver is closed")
	}
	switch c.Op {
	case "Dial":
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
		r.ID, r.TTL = o.ID, o.TTL
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
	case "Cells":
		for name, err := range d.Cells(ctx, c.Name) {
			if err != nil {
				return err
			}
			r.Names = append(r.Names, name)
		}
	case "Ask":
		err = d.Ask(ctx, c.Name, c.Member, c.Demand)
	case "Raise":
		err = d.Raise(ctx, c.Name, c.After)
	case "Resize":
		err = d.Resize(ctx, c.Name, c.Units)
	case "Check":
		r.Findings = d.Check(ctx)
	case "Exchanges":
		r.Count = d.Exchanges()
	case "Close":
		s.mu.Lock()
		s.driver = nil
		s.mu.Unlock()
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
	case "Work":
		work := s.work[c.Name]
		if work == nil {
			return fmt.Errorf("no such work: %s", c.Name)
		}
		err = work(ctx, d, c.Work)
	default:
		err = fmt.Errorf("no such call: %s", c.Op)
	}
	return err
}
