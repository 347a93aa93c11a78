package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// begin opens the client. The context ends with a signal; stop gives the signals up.
func (j *job) begin(cmd *cobra.Command) (_ context.Context, stop func(), _ error) {
	if err := startable(j.args); err != nil {
		return nil, nil, err
	}
	j.renewed = make(chan struct{}, 1)
	j.doubt = make(chan error, 1)
	j.overrun = make(chan interlock.Event, 1)
	opts := []interlock.ClientOption{interlock.Observe(func(_ context.Context, e interlock.Event) {
		switch e.Kind {
		case interlock.EventRenewed:
			put(j.renewed, struct{}{}) // the one that is due sees this renewal too
		case interlock.EventInDoubt:
			put(j.doubt, e.Err)
		case interlock.EventOverrun:
			put(j.overrun, e) // of several locks, one that is told of is enough
		}
	})}
	ctx, stop := untilSignal(cmd.Context())
	ttl, err := j.ttl(ctx)
	if ttl != 0 {
		opts = append(opts, interlock.TTL(ttl))
	}
	if err == nil {
		err = j.open(ctx, opts...)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// put adds a value to a channel of one, unless there is one already.
func put[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

// drop empties a channel of one.
func drop[T any](from chan T) {
	select {
	case <-from:
	default:
	}
}

// open opens the client of the command. It refuses locks that the process runs under already.
func (j *job) open(ctx context.Context, opts ...interlock.ClientOption) error {
	c, b, err := j.o.attach(ctx, j.openTime(), j.names[0], func(event, text string) { j.say.tell(event, "", "%s", text) }, opts...)
	if err != nil {
		return err
	}
	j.c, j.backend = c, b
	j.say.tell("backend", "", "backend %s (%s), TTL %v", b.shown(), b.source, c.TTL())
	if b.surprises(j.again || j.atLeast > 0 || j.oncePer > 0) {
		j.say.warn(ofOneMachine)
	}
	for _, name := range j.names {
		entry := heldEntry(b, name)
		if heldAlready(entry) {
			j.c.finish()
			return usage("%s %s: the process that started this one holds the lock already; waiting for it would never end", j.verb, name)
		}
		j.entries = append(j.entries, entry)
	}
	return nil
}

// ttl is what a client of the job asks for, 0 if the URL says it, or nobody does.
func (j *job) ttl(ctx context.Context) (time.Duration, error) {
	if j.flags.ttl != 0 {
		return j.flags.ttl, nil
	}
	b, err := j.o.backend(ctx)
	if err != nil {
		return 0, err
	}
	u, err := driver.ParseURL(b.url)
	if err != nil || u.Duration("ttl", shortestTTL) >= shortestTTL {
		return 0, nil // opening it says why
	}
	return shortestTTL, nil
}

// openTime is how long the backend may take to be opened. One that is slow, but no slower
// than most, is not away because somebody does not want to wait for the lock.
func (j *job) openTime() time.Duration {
	if j.flags.wait == 0 {
		return patience
	}
	return min(max(j.flags.wait, lastWord), patience)
}
