package interlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/engine"
	"github.com/interlock-go/interlock/internal/record"
)

// cell is a versioned value at the backend, with lost replies and an
// unreachable backend overcome until the caller's context ends.
type cell struct {
	c    *Client
	name string // as the user knows it
	key  string // as the backend knows it
	err  error  // a wrong name
}

// The primitives that are made of cells keep apart by a last segment, so that
// a latch and a value may have the same name.
func (c *Client) cell(what, name string) cell {
	return cell{c: c, name: name, key: c.cfg.prefix + name + "/" + what, err: c.checkName(name)}
}

var errReserved = driver.Invalid(fmt.Errorf("names that begin with %q or %q are reserved", record.Overruns, record.Waits))

// checkName reports why a name is refused. With a prefix, an empty name is no name either.
func (c *Client) checkName(name string) error {
	if name == "" {
		return driver.CheckName("")
	}
	if record.IsReserved(c.cfg.prefix + name) {
		return errReserved
	}
	return driver.CheckName(c.cfg.prefix + name)
}

// retry repeats f, which waits for others until ctx ends, until it succeeds, fails for good, or ctx ends.
func (v cell) retry(ctx context.Context, f func(context.Context) error) error {
	return v.repeat(ctx, f, v.c.e.Because)
}

// request is retry for what the backend answers soon.
func (v cell) request(ctx context.Context, f func(context.Context) error) error {
	var err error
	return v.repeat(ctx, func(ctx context.Context) error {
		call := v.c.e.Call(ctx)
		defer call.Release()
		err = f(call)
		return err
	}, func(ctx context.Context, last error) error {
		if last == nil {
			return engine.Unanswered(ctx, err)
		}
		return v.c.e.Because(ctx, last)
	})
}

// repeat is either. What is returned when ctx ends, ended says, which is told why the last try failed that
// ended sooner.
func (v cell) repeat(ctx context.Context, f func(context.Context) error, ended func(ctx context.Context, last error) error) error {
	if v.err != nil {
		return v.err
	}
	var b backoff.Backoff
	var last error
	for {
		if v.c.e.Context().Err() != nil {
			return ErrClosed
		}
		if ctx.Err() != nil {
			return v.c.e.Because(ctx, last)
		}
		err := f(ctx)
		switch {
		case err == nil:
			return nil
		case v.c.e.Context().Err() != nil:
			return ErrClosed
		case driver.IsPermanent(err):
			return err
		case ctx.Err() != nil:
			if !errors.Is(err, ctx.Err()) {
				last = err
			}
			return ended(ctx, last)
		}
		last = engine.Tried(err)
		_ = b.Sleep(ctx)
	}
}

func (v cell) load(ctx context.Context) (got driver.Cell, err error) {
	err = v.request(ctx, func(ctx context.Context) error {
		got, err = v.c.e.Driver().Load(ctx, v.key)
		return err
	})
	return got, err
}

// errUnknown: the backend would not recognise the repetition any more.
var errUnknown = errors.New("no answer; whether the value was changed is unknown")

func (v cell) swap(ctx context.Context, s driver.Swap) (got driver.Cell, err error) {
	if !s.Delete && len(s.Value) > driver.MaxCell {
		return got, driver.Invalid(fmt.Errorf("a value of %d bytes: at most %d are possible", len(s.Value), driver.MaxCell))
	}
	s.ID, s.Name = engine.NewID(), v.key
	// Repeating is harmless only as long as the backend remembers the first try.
	ctx, cancel := context.WithTimeoutCause(ctx, driver.SwapMemory/2, errUnknown)
	defer cancel()
	err = v.request(ctx, func(ctx context.Context) error {
		got, err = v.c.e.Driver().Swap(ctx, s)
		return err
	})
	return got, err
}

// watch waits for a version other than after.
func (v cell) watch(ctx context.Context, after uint64) (got driver.Cell, err error) {
	ctx, cancel := v.c.untilClosed(ctx)
	defer cancel()
	err = v.retry(ctx, func(ctx context.Context) error {
		got, err = v.c.e.Driver().Watch(ctx, v.key, after)
		return err
	})
	return got, err
}

// await waits until ok accepts the cell.
func (v cell) await(ctx context.Context, ok func(driver.Cell) (bool, error)) error {
	got, err := v.load(ctx)
	for err == nil {
		done, wrong := ok(got)
		if done || wrong != nil {
			return wrong
		}
		got, err = v.watch(ctx, got.Version)
	}
	return err
}

// errUnchanged: a change has nothing to do.
var errUnchanged = errors.New("unchanged")

// create makes the cell, unless it exists.
func (v cell) create(ctx context.Context, value []byte) (got driver.Cell, created bool, err error) {
	got, err = v.change(ctx, func(was driver.Cell) (driver.Swap, error) {
		if created = !was.Exists; !created {
			return driver.Swap{}, errUnchanged
		}
		return driver.Swap{Value: value}, nil
	})
	return got, created, err
}

// remove deletes the cell, if it exists.
func (v cell) remove(ctx context.Context) error {
	_, err := v.change(ctx, func(was driver.Cell) (driver.Swap, error) {
		if !was.Exists {
			return driver.Swap{}, errUnchanged
		}
		return driver.Swap{Delete: true}, nil
	})
	return err
}

// change swaps the cell to what f makes of it, again whenever another client was faster, until ctx ends. With
// errUnchanged it stays as it is.
func (v cell) change(ctx context.Context, f func(driver.Cell) (driver.Swap, error)) (driver.Cell, error) {
	b := backoff.Backoff{Most: 100 * time.Millisecond} // others are fast, the backend is not ill
	for {
		got, err := v.load(ctx)
		if err != nil {
			return got, err
		}
		s, err := f(got)
		switch {
		case errors.Is(err, errUnchanged):
			return got, nil
		case err != nil:
			return got, err
		}
		s.Version = got.Version
		got, err = v.swap(ctx, s)
		if !isConflict(err) {
			return got, err
		}
		if b.Sleep(ctx) != nil {
			return got, context.Cause(ctx)
		}
	}
}

func isConflict(err error) bool { return errors.Is(err, ErrConflict) }

func (v cell) fail(op string, err error) error { return failed(op, v.name, err) }

// untilClosed returns a context that also ends with the client.
func (c *Client) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.e.Context(), func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}
