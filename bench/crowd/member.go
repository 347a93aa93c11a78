package crowd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
)

// theLock is what the crowd waits for. Each waiter has a place of its own in
// line: goroutines that hand a lock on among themselves are no crowd.
const theLock = "crowd"

// Member is one process of a crowd, as the variable says. It ends with its
// standard input.
func Member() error {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &t); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	m := &member{task: t, out: json.NewEncoder(os.Stdout)}
	ctx := context.Background()
	c, err := interlock.Open(ctx, t.URL, interlock.TTL(t.TTL))
	if err != nil {
		return m.fail(err)
	}
	m.client = c
	first, err := m.keep(ctx)
	if err != nil {
		return m.fail(err)
	}
	m.send(report{Ready: true})
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1) // whoever measures is gone
	}()
	m.run(first)
	if err := c.Close(); err != nil {
		m.note(func(r *report) { r.say(err) })
	}
	m.flush()
	m.send(report{Ended: true})
	return nil
}

type member struct {
	task
	client *interlock.Client

	mu  sync.Mutex
	new report // since the last one
	out *json.Encoder
}

func (m *member) run(first *interlock.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), m.Time)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { m.hold(ctx, first) })
	impatient := int(m.GivingUp*float64(m.Waiters) + 0.5)
	for i := range m.Waiters {
		all.Go(func() { m.wait(ctx, i < impatient) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		case <-time.After(100 * time.Millisecond):
			m.flush()
		}
	}
}

// wait is one waiter: it waits for the lock, has it for a moment, and comes back.
func (m *member) wait(ctx context.Context, impatient bool) {
	l := m.client.Mutex(theLock, interlock.StrictOrder())
	for ctx.Err() == nil {
		mine, cancel := ctx, context.CancelFunc(func() {})
		if impatient {
			mine, cancel = context.WithTimeout(ctx, rand.N(m.Patience))
		}
		lease, err := l.Acquire(mine)
		over := mine.Err() != nil
		cancel()
		switch {
		case err == nil:
			g := grant{From: time.Now().UnixNano()}
			g.To = time.Now().UnixNano()
			m.released(lease.Release(), &g)
		case ctx.Err() != nil:
			return
		case over:
			m.note(func(r *report) { r.GaveUp++ })
		default:
			m.note(func(r *report) { r.Failed++; r.say(err) })
			pause(ctx)
		}
	}
}

// hold has a lease all the time, which nothing but this process's death may end.
func (m *member) hold(ctx context.Context, l *interlock.Lease) {
	for ctx.Err() == nil {
		select {
		case <-l.Done():
			m.note(func(r *report) { r.Lost++; r.say(l.Err()) })
		case <-ctx.Done():
			m.released(l.Release(), nil)
			return
		}
		var err error
		for l, err = m.keep(ctx); err != nil; l, err = m.keep(ctx) {
			if ctx.Err() != nil {
				return
			}
			m.note(func(r *report) { r.Failed++; r.say(err) })
			pause(ctx)
		}
	}
}

func (m *member) keep(ctx context.Context) (*interlock.Lease, error) {
	return m.client.Mutex(fmt.Sprint("kept/", m.Number)).Acquire(ctx)
}

// released counts how a lease has ended.
func (m *member) released(err error, g *grant) {
	m.note(func(r *report) {
		if g != nil {
			r.Grants = append(r.Grants, *g)
		}
		switch {
		case errors.Is(err, interlock.ErrLost):
			r.Lost++
			r.say(err)
		case err != nil:
			r.Failed++
			r.say(err)
		}
	})
}

// pause keeps whoever is refused from asking as fast as it can.
func pause(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

func (m *member) note(f func(*report)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.new)
}

func (r *report) say(err error) {
	if text := err.Error(); len(r.Said) < 10 && !slices.Contains(r.Said, text) {
		r.Said = append(r.Said, text)
	}
}

func (m *member) flush() {
	m.mu.Lock()
	r := m.new
	m.new = report{}
	m.mu.Unlock()
	m.send(r)
}

func (m *member) send(r report) { _ = m.out.Encode(r) }

// fail tells whoever measures why there is no crowd here.
func (m *member) fail(err error) error {
	m.send(report{Said: []string{err.Error()}})
	return err
}
