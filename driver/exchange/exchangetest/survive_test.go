package exchangetest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/bubble"
)

const ttl = 10 * time.Second

// Promise: whatever the network does to requests, replies and events, and though the backend
// crashes, no two holders are proven at the same time, tokens grow, each client gets its turn, and
// no ticket is left when all have left.
func TestWhatTheClientSurvives(t *testing.T) {
	for name, network := range map[string]exchangetest.Network{
		"a good network":              {},
		"requests are lost":           {LoseRequest: 0.3},
		"replies are lost":            {LoseReply: 0.3},
		"all is late":                 {Delay: 0.5, Longest: 3 * time.Second},
		"requests come much later":    {LateRequest: 0.3, Longest: time.Second},
		"events are lost":             {LoseEvent: 0.5},
		"events are late and doubled": {DelayEvent: 0.5, RepeatEvent: 0.5, Longest: 3 * time.Second},
		"all of it": {
			LoseRequest: 0.1, LoseReply: 0.1, Delay: 0.3, LateRequest: 0.1, LoseEvent: 0.2, DelayEvent: 0.2, RepeatEvent: 0.2, Longest: time.Second,
		},
	} {
		for _, crashes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/crashes=%v", name, crashes), func(t *testing.T) {
				bubble.Run(t, func(t *testing.T) { survive(t, network, crashes) })
			})
		}
	}
}

func survive(t *testing.T, network exchangetest.Network, crashes bool) {
	w := exchangetest.NewWorld()
	w.Disturb(network)
	ctx, cancel := context.WithCancel(t.Context())
	var background, work sync.WaitGroup
	if crashes {
		background.Go(func() {
			for n := range 5 {
				if !sleep(ctx, 5*time.Second+rand.N(10*time.Second)) {
					return
				}
				w.Crash(fmt.Sprint("server ", n))
			}
		})
	}
	resources := map[string]*resource{"q": {}, "r": {}, "s": {}} // by name of the lock
	var drivers []*exchange.Driver
	for range 4 {
		c := &client{t: t, d: w.Store().Driver(), resources: resources, opening: make(chan struct{}, 1), mine: map[string]*lease{}}
		drivers = append(drivers, c.d)
		background.Go(func() { c.beat(ctx) })
		for queue := range resources { // what goes to the backend at the same time goes together
			work.Go(func() {
				for range 15 {
					c.turn(ctx, queue)
				}
			})
		}
	}
	work.Wait()
	for queue, resource := range resources {
		if resource.entered < 4*15/2 {
			t.Errorf("%d of %d turns of %s were held", resource.entered, 4*15, queue)
		}
	}
	w.Disturb(exchangetest.Network{})
	time.Sleep(4 * ttl) // heartbeats go on: what they would extend, they would extend for ever
	for q, err := range drivers[0].Queues(ctx, "") {
		t.Errorf("when all have left: %+v, %v", q, err)
	}
	cancel()
	background.Wait()
	for _, d := range drivers {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// resource is what the lock protects.
type resource struct {
	mu      sync.Mutex
	holder  *lease
	token   uint64
	entered int
}

// lease is a ticket that a client has.
type lease struct {
	ticket driver.Ticket
	lost   bool
}

type client struct {
	t         *testing.T
	d         *exchange.Driver
	resources map[string]*resource

	opening chan struct{} // has room for the one who changes the session
	session driver.Session

	mu   sync.Mutex
	mine map[string]*lease
}

// valid says whether the ticket is proven to be held. client.mu is held.
func (c *client) valid(l *lease) bool {
	return !l.lost && c.d.Now() < l.ticket.Proof.Add(ttl)
}

// open returns the session, a new one if the last is over.
func (c *client) open(ctx context.Context, over driver.Session) driver.Session {
	c.opening <- struct{}{} // simulated time stands still while a goroutine waits for a mutex
	defer func() { <-c.opening }()
	for (c.session == nil || c.session == over) && ctx.Err() == nil {
		call, done := context.WithTimeout(ctx, 2*time.Second)
		s, err := c.d.Open(call, driver.SessionOptions{TTL: ttl})
		done()
		if err == nil {
			c.session = s
		}
	}
	return c.session
}

// beat sends heartbeats.
func (c *client) beat(ctx context.Context) {
	for wait := ttl / 6; sleep(ctx, wait); {
		s := c.open(ctx, nil)
		if s == nil {
			return
		}
		c.mu.Lock()
		var known []driver.Ticket
		for _, l := range c.mine {
			known = append(known, l.ticket)
		}
		c.mu.Unlock()
		call, done := context.WithTimeout(ctx, 2*time.Second)
		got, err := s.Renew(call, known)
		done()
		if wait = ttl / 6; err != nil {
			wait = ttl / 50
		}
		c.mu.Lock()
		for _, r := range got {
			switch l := c.mine[r.ID]; {
			case l == nil:
			case r.State == driver.Kept:
				l.ticket.Proof = max(l.ticket.Proof, r.Proof)
			case r.State == driver.Gone, r.State == driver.Evicted:
				l.lost = true
			}
		}
		c.mu.Unlock()
	}
}

// turn holds the lock once.
func (c *client) turn(ctx context.Context, queue string) {
	s := c.open(ctx, nil)
	r := driver.Request{ID: exchange.NewID(), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
	var k driver.Ticket
	err := c.repeat(ctx, func(ctx context.Context) (err error) {
		k, err = s.Join(ctx, r)
		r.Retry = true
		return err
	})
	if err == nil {
		l := &lease{ticket: k}
		c.mu.Lock()
		c.mine[r.ID] = l
		c.mu.Unlock()
		if !k.Held {
			wait, done := context.WithTimeout(ctx, 10*time.Minute)
			k, err = s.Await(wait, k)
			if wait.Err() != nil {
				c.t.Errorf("it waits for ever: %v", err)
			}
			done()
		}
		if err == nil {
			c.enter(ctx, l, k)
		}
	}
	c.mu.Lock()
	delete(c.mine, r.ID)
	c.mu.Unlock()
	left := c.repeat(ctx, func(ctx context.Context) error {
		return s.Leave(ctx, driver.Ticket{ID: r.ID, Queue: r.Queue}, true)
	})
	for _, err := range []error{err, left} {
		switch {
		case errors.Is(err, driver.ErrSession):
			c.open(ctx, s)
		case err != nil && !errors.Is(err, driver.ErrGone):
			c.t.Errorf("it has ended with %v", err)
		}
	}
}

// enter uses the resource while the ticket is proven to be held.
func (c *client) enter(ctx context.Context, l *lease, k driver.Ticket) {
	c.mu.Lock()
	k.Proof = max(k.Proof, l.ticket.Proof)
	l.ticket = k
	c.mu.Unlock()
	resource := c.resources[k.Queue]
	uses := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		resource.mu.Lock()
		defer resource.mu.Unlock()
		if !c.valid(l) {
			if resource.holder == l {
				resource.holder = nil
			}
			return false
		}
		if resource.holder == nil {
			resource.holder = l
			if resource.entered++; k.Token <= resource.token {
				c.t.Errorf("the token %d comes after %d", k.Token, resource.token)
			}
			resource.token = k.Token
		} else if resource.holder != l {
			c.t.Errorf("two holders: %+v and %+v", resource.holder.ticket, l.ticket)
		}
		return true
	}
	for range rand.N(20) + 1 {
		if !uses() || !sleep(ctx, 100*time.Millisecond) {
			return
		}
	}
	resource.mu.Lock()
	defer resource.mu.Unlock()
	if resource.holder == l {
		resource.holder = nil
	}
}

// repeat makes a call until it has an answer that will be the same next time.
func (c *client) repeat(ctx context.Context, call func(context.Context) error) error {
	for {
		one, done := context.WithTimeout(ctx, 4*time.Second)
		err := call(one)
		done()
		if err == nil || driver.IsPermanent(err) || ctx.Err() != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
