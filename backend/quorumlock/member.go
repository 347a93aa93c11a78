package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/oneline"
)

// member is one backend. One that was given by a URL is opened when it can be reached.
type member struct {
	name string // without a password
	open func(context.Context) (driver.Driver, error)
	busy chan struct{} // holds a value while somebody opens it

	mu     sync.Mutex
	d      driver.Driver
	closed bool
}

func (m *member) opened() driver.Driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.d
}

// driver opens the member unless that was done before.
func (m *member) driver(ctx context.Context) (driver.Driver, error) {
	if d := m.opened(); d != nil {
		return d, nil
	}
	select {
	case m.busy <- struct{}{}:
		defer func() { <-m.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if d := m.opened(); d != nil {
		return d, nil
	}
	d, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = d.Close()
		return nil, errClosed
	}
	m.d = d
	return d, nil
}

func (m *member) close() error {
	m.mu.Lock()
	d := m.d
	m.closed = true
	m.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.Close()
}

// answer is what a member has said.
type answer[T any] struct {
	m   *member
	i   int // of the member
	d   driver.Driver
	got T
	err error
}

// ask calls all members at once, each for at most the given time, and returns the answers in the order of
// the members.
func ask[T any](ctx context.Context, d *Driver, limit time.Duration, call func(context.Context, driver.Driver) (T, error)) []answer[T] {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all := make([]answer[T], len(d.members))
	var calls sync.WaitGroup
	for i, m := range d.members {
		calls.Go(func() {
			a := answer[T]{m: m, i: i}
			if a.d, a.err = m.driver(ctx); a.err == nil {
				a.got, a.err = call(ctx, a.d)
			}
			all[i] = a
		})
	}
	calls.Wait()
	return all
}

// inspection bounds what inspection waits for one member.
const inspection = 2 * time.Second

// enough reports, as an error, if fewer than a majority have answered.
func enough[T any](ctx context.Context, d *Driver, all []answer[T]) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	why := failures(all)
	good := len(all) - len(why)
	if good >= d.majority {
		return nil
	}
	return errTooFew(good, len(all), why)
}

// failures says of each member that has not answered why.
func failures[T any](all []answer[T]) (why []string) {
	for _, a := range all {
		if a.err != nil {
			why = append(why, a.m.name+": "+oneline.Of(a.err.Error()))
		}
	}
	return why
}

func errTooFew(good, all int, why []string) error {
	return fmt.Errorf("quorum: %d of %d members count, %d are needed: %s", good, all, all/2+1, strings.Join(why, "; "))
}

// agreed is the error that a majority of answers have in common, such as ErrInvalid.
func agreed[T any](d *Driver, all []answer[T], what error) error {
	n := 0
	var last error
	for _, a := range all {
		if errors.Is(a.err, what) {
			n, last = n+1, a.err
		}
	}
	if n < d.majority {
		return nil
	}
	return last
}
