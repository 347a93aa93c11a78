package workload

import (
	"context"
	"fmt"
	"time"
)

// drain lines up waiters, each with a client of its own, behind one holder, and
// times how long it takes, from its release, until the last of them had the lock.
func drain(ctx context.Context, c Contender, e Env, r *Result) error {
	clients, end, err := open(ctx, c, 1+e.Waiters)
	if err != nil {
		return err
	}
	defer end()
	name := newName()
	// Connections are made and scripts are loaded before.
	err = Together(len(clients), 32, func(i int) error { return once(ctx, clients[i].Lock(fmt.Sprintf("%s/warm/%d", name, i))) })
	if err != nil {
		return err
	}
	const holder = -1
	var a arena
	first, err := clients[0].Lock(name)(ctx)
	if err != nil {
		return err
	}
	_, _, _ = a.enter(holder, first.Token, time.Now())

	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, e.Waiters)
	for i, client := range clients[1:] {
		lock := client.Lock(name)
		go func() { served <- turn(waiting, i, lock, &a) }()
	}
	if err := lineUp(ctx, clients[0], name, e); err != nil {
		return err
	}
	began := time.Now()
	if err := a.leave(holder, began); err != nil {
		r.wrong("%v", err)
	}
	if err := first.Release(); err != nil {
		return fmt.Errorf("the first release: %w", err)
	}
	late := time.AfterFunc(e.Limit, cancel)
	defer late.Stop()
	stuck := 0
	for range e.Waiters {
		if err := <-served; err != nil && waiting.Err() != nil {
			stuck++
		} else if err != nil {
			r.wrong("%v", err)
		}
	}
	if stuck > 0 {
		r.Stuck = fmt.Sprintf("%d of %d", stuck, e.Waiters)
	}
	r.set(DrainS, time.Since(began).Seconds())
	return nil
}

// turn waits for the lock and gives it back.
func turn(ctx context.Context, worker int, lock Lock, a *arena) error {
	h, err := lock(ctx)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	_, _, err = a.enter(worker, h.Token, time.Now())
	if e := a.leave(worker, time.Now()); err == nil {
		err = e
	}
	if e := h.Release(); err == nil {
		err = e
	}
	return err
}

// lineUp returns once all wait.
func lineUp(ctx context.Context, c Client, name string, e Env) error {
	late := fmt.Errorf("the waiters are not in line after %v", e.Limit)
	ctx, cancel := context.WithTimeoutCause(ctx, e.Limit, late)
	defer cancel()
	for ctx.Err() == nil {
		began := time.Now()
		n, err := c.Waiting(ctx, name)
		if ctx.Err() == nil && (err != nil || n == e.Waiters) {
			return err
		}
		time.Sleep(max(20*time.Millisecond, time.Since(began))) // to look is work, too
	}
	return context.Cause(ctx)
}
