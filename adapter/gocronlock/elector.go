package gocronlock

import (
	"context"
	"fmt"
	"sync"

	"github.com/interlock-go/interlock"
)

// Elector is a candidate of an election, for [gocron.WithDistributedElector]: the scheduler of the instance that leads
// runs all jobs.
//
//	elector := gocronlock.NewElector(client, "scheduler")
//	go elector.Lead(ctx) // until ctx ends
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// [gocron.WithDistributedElector]: https://pkg.go.dev/github.com/go-co-op/gocron/v2#WithDistributedElector
type Elector struct {
	election *interlock.Election
	name     string

	working sync.RWMutex    // read-locked by the work of Bind; locked to change what follows
	leading context.Context // of the function of Lead; nil while another leads
}

// NewElector returns a candidate, which stands once Lead is called.
func NewElector(c *interlock.Client, name string, opts ...interlock.Option) *Elector {
	return &Elector{election: c.Election(name, opts...), name: name}
}

// Lead stands until ctx ends, again when the leadership was lost, and returns why it does not any more. The next
// instance leads when ctx has ended and the work of Bind has returned. Jobs without Bind are not waited for: shut the
// scheduler down first.
func (e *Elector) Lead(ctx context.Context) error {
	var none context.Context
	return e.election.Lead(ctx, "", func(ctx context.Context) error {
		e.set(ctx)
		<-ctx.Done()
		e.set(none) // when the work has returned
		return context.Cause(ctx)
	})
}

func (e *Elector) set(leading context.Context) {
	e.working.Lock()
	defer e.working.Unlock()
	e.leading = leading
}

// IsLeader returns nil while this instance leads. gocron asks at the beginning of each run, and skips it after an
// error.
func (e *Elector) IsLeader(context.Context) error {
	_, done, err := e.begin()
	if err == nil {
		done()
	}
	return err
}

// begin keeps the leadership from passing on until done is called.
func (e *Elector) begin() (leading context.Context, done func(), err error) {
	if e.working.TryRLock() { // else it ends
		// In a process that stood still the lease is over before the context is.
		if e.leading != nil && e.leading.Err() == nil && interlock.LeaseFrom(e.leading).Remaining() > 0 {
			return e.leading, e.working.RUnlock, nil
		}
		e.working.RUnlock()
	}
	return nil, nil, fmt.Errorf("election %q: this instance does not lead: %w", e.name, interlock.ErrBusy)
}

// Bind returns the function for [gocron.NewTask]: f, with a context that also ends with the leadership, and that
// carries the lease ([interlock.LeaseFrom]). The run fails if the leadership was lost.
//
// [gocron.NewTask]: https://pkg.go.dev/github.com/go-co-op/gocron/v2#NewTask
func (e *Elector) Bind(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		leading, done, err := e.begin()
		if err != nil {
			return err
		}
		defer done()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(leading, func() { cancel(context.Cause(leading)) })()
		return work(ctx, interlock.LeaseFrom(leading), f)
	}
}
