package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/recent"
	"github.com/interlock-go/interlock/internal/signals"
)

// session is over when it is closed, and never before: a member that ends its part of it is opened
// again.
type session struct {
	d        *Driver
	id       string
	owner    string
	asked    time.Duration
	patience time.Duration // what a call of one member may take
	signals  *signals.Queue
	ctx      context.Context // ends with the session or the driver
	cancel   context.CancelFunc
	done     chan struct{}
	links    []*link // in the order of the members

	mu      sync.Mutex
	granted time.Duration // the TTL; 0 before Open has returned
	closed  bool
	tickets map[string]*ticket
	placed  map[string]*ticket // by the IDs of their places
	left    recent.IDs
	news    chan struct{} // closed when a link changes
	rounds  uint64        // of Renew
	swept   driver.Instant
}

// Open opens a session at all members that can be reached, at least a majority. Its TTL is the shortest that
// one of these grants. While members are being opened it waits for them, but not for long once a majority
// counts.
func (d *Driver) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	s := &session{
		d: d, id: newID(), asked: o.TTL, owner: o.Owner,
		patience: min(max(o.TTL/6, 20*time.Millisecond), 2*time.Second),
		signals:  signals.New(),
		done:     make(chan struct{}),
		tickets:  map[string]*ticket{},
		placed:   map[string]*ticket{},
		news:     make(chan struct{}),
	}
	if s.owner == "" {
		host, _ := os.Hostname()
		s.owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	s.ctx, s.cancel = context.WithCancel(d.ctx)
	for i, m := range d.members {
		s.links = append(s.links, &link{s: s, m: m, i: i, wake: make(chan struct{}, 1)})
	}
	for _, l := range s.links {
		d.background(l.keep)
	}
	if err := s.assemble(ctx); err != nil {
		s.end()
		return nil, cmp.Or(d.usable(ctx), err)
	}
	return &driver.Opened{Session: s, ID: s.id, TTL: s.granted, Paused: s.paused()}, nil
}

// paused is when a majority of the members grants again.
func (s *session) paused() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ends []driver.Instant
	for _, l := range s.links {
		if l.at != nil {
			ends = append(ends, l.at.Paused)
		}
	}
	if len(ends) < s.d.majority {
		return 0
	}
	slices.Sort(ends)
	return ends[s.d.majority-1]
}

// assemble waits until the links are settled.
func (s *session) assemble(ctx context.Context) error {
	var grace <-chan time.Time
	limit := time.NewTimer(2 * max(s.patience, time.Second))
	defer limit.Stop()
	began := s.d.now()
	for {
		s.mu.Lock()
		open, counts, settled := 0, 0, 0
		ttl := s.asked
		for _, l := range s.links {
			if l.at != nil {
				open++
				ttl = min(ttl, l.at.TTL)
			}
			if l.counts() {
				counts++
			}
			if l.settled {
				settled++
			}
		}
		enough := settled == len(s.links)
		if open >= s.d.majority && enough {
			s.granted = ttl
			s.left.Span = min(3*ttl, longestTTL)
			s.mu.Unlock()
			return nil
		}
		news, why := s.news, s.tooFew()
		s.mu.Unlock()
		if enough {
			return why
		}
		if counts >= s.d.majority && grace == nil {
			timer := time.NewTimer(2*s.d.now().Sub(began) + 10*time.Millisecond)
			defer timer.Stop()
			grace = timer.C
		}
		select {
		case <-news:
		case <-grace:
			s.settleAll()
		case <-limit.C:
			s.settleAll()
		case <-ctx.Done():
			return errors.Join(ctx.Err(), why)
		case <-s.ctx.Done():
			return errClosed
		}
	}
}

// settleAll waits no more for links whose members have not answered yet.
func (s *session) settleAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if !l.settled {
			l.fails(context.DeadlineExceeded)
		}
	}
}

// ttl is what was granted, or while Open has not returned what was asked for.
func (s *session) ttl() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.granted, s.asked)
}

// changed tells all who wait for links. s.mu is held.
func (s *session) changed() {
	close(s.news)
	s.news = make(chan struct{})
	for _, t := range s.tickets {
		t.poke()
	}
}

// counting lists the links that count, in order. s.mu is held.
func (s *session) counting() (all []*link) {
	for _, l := range s.links {
		if l.counts() {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, byLife)
	return all
}

// twin finds another link of the same server. s.mu is held.
func (s *session) twin(l *link, life string) *link {
	for _, o := range s.links {
		if o != l && o.at != nil && o.life == life {
			return o
		}
	}
	return nil
}

// tooFew is the error while fewer than a majority count. s.mu is held.
func (s *session) tooFew() error {
	var why []string
	good := 0
	for _, l := range s.links {
		if l.counts() {
			good++
		} else {
			why = append(why, l.reason())
		}
	}
	return errTooFew(good, len(s.links), why)
}

// usable reports why a call is refused.
func (s *session) usable(ctx context.Context) error {
	if err := s.d.usable(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrSession
	}
	return nil
}

// signalled passes on a signal of a member. s.mu is held.
func (s *session) signalled(sig driver.Signal) {
	if sig.Demand == driver.Doubt {
		if len(s.counting()) < s.d.majority {
			s.signals.Add(driver.Doubt, "", "")
		}
		return
	}
	t := s.placed[sig.ID]
	if t == nil {
		return
	}
	if sig.Demand == driver.Evict {
		t.evicted = true
		t.poke()
	}
	s.signals.Add(sig.Demand, t.req.Queue, t.req.ID)
}

func (s *session) Signals(ctx context.Context) (driver.Signal, error) {
	return s.signals.Next(ctx, s.usable, s.done, s.d.ctx.Done())
}

// end stops everything. It reports false if it was done before.
func (s *session) end() bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.closed = true
	close(s.done)
	for _, t := range s.tickets {
		t.over(driver.ErrSession)
	}
	links := make([]*driver.Opened, len(s.links))
	for i, l := range s.links {
		links[i] = l.at
	}
	s.mu.Unlock()
	s.cancel()
	var all sync.WaitGroup
	for _, at := range links {
		if at == nil {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.d.ctx, s.patience)
			defer cancel()
			_ = at.Close(ctx) // else it runs out
		})
	}
	all.Wait()
	return true
}

func (s *session) Close(ctx context.Context) error {
	if err := s.d.usable(ctx); err != nil {
		return err
	}
	if !s.end() {
		return driver.ErrSession
	}
	return nil
}
