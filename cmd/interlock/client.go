package main

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// pulse is the longest time between two looks at the backend of a command that waits.
const pulse = 3 * time.Second

// client is that of one command. While the command waits for others, it looks whether
// the backend still answers.
type client struct {
	*interlock.Client
	name string // that the command is about
	tell func(event, text string)

	// finish closes the client, but does not wait for a backend that is away. It returns the
	// same each time.
	finish func() error

	mu     sync.Mutex
	away   error         // why the backend does not answer, nil if it does
	failed error         // why a try failed since it was asked last, nil if none did
	told   bool          // that tries fail
	quiet  time.Duration // for how long it was asked since, and none failed
}

// attach opens the client of a command within a time. The name is "", or no name of a lock, if the command
// is not about one. Tell gets what is said of the backend.
func (o *options) attach(ctx context.Context, limit time.Duration, name string, tell func(event, text string), opts ...interlock.ClientOption) (*client, backend, error) {
	if driver.CheckName(name) != nil {
		name = "interlock"
	}
	k := &client{name: name, tell: tell}
	ctx, cancel := answering(ctx, limit)
	defer cancel()
	b, err := o.backend(ctx)
	if err != nil {
		return nil, b, err
	}
	k.Client, err = b.open(ctx, append(opts, interlock.Observe(func(_ context.Context, e interlock.Event) {
		if e.Kind == interlock.EventRetry {
			k.retried(e.Err)
		}
	}))...)
	if err != nil {
		return nil, b, err
	}
	k.finish = sync.OnceValue(func() error {
		limit := lastWord
		if k.whyAway() != nil {
			limit /= 4
		}
		return within(limit, k.Close)
	})
	return k, b, nil
}

// whyAway is why the backend does not answer, nil if it did when it was asked last.
func (k *client) whyAway() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.away
}

// retried notes that a try to acquire failed, and is made again.
func (k *client) retried(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = why
}

// silent notes that the backend did not answer.
func (k *client) silent(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = why
}

// watch asks the backend for an answer every so often, until it is stopped, and tells
// when it goes away and when it is back.
func (k *client) watch(ctx context.Context, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if err := k.ask(ctx, max(every, time.Second)); ctx.Err() == nil {
				k.judge(err, every)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// ask makes one small exchange. A refusal is an answer.
func (k *client) ask(ctx context.Context, limit time.Duration) error {
	ctx, cancel := answering(ctx, limit)
	defer cancel()
	_, err := interlock.NewValue[[]byte](k.Client, k.name).Get(ctx)
	if ctx.Err() == nil {
		return nil
	}
	return err
}

// rowEnds is longer than tries that fail are apart: the pause between two is 1.5 s at most.
const rowEnds = 10 * time.Second

// judge takes note of whether the backend has answered, when it is asked every so often. If it has, and
// refuses what is asked of it all the same, that is told once in each row of tries that fail.
func (k *client) judge(err error, every time.Duration) {
	k.mu.Lock()
	was, refused := k.away, k.failed
	k.away, k.failed = err, nil
	if err != nil || was != nil {
		refused = nil // the tries failed because it was away
	}
	if k.quiet += every; refused != nil {
		k.quiet = 0
	}
	news := refused != nil && !k.told
	k.told = refused != nil || k.told && err == nil && was == nil && k.quiet < rowEnds
	k.mu.Unlock()
	switch {
	case err != nil && was == nil:
		k.tell("away", "the backend does not answer: "+reason(err))
	case err == nil && was != nil:
		k.tell("back", "the backend answers again")
	case news:
		k.tell("retry", "trying again: "+reason(refused))
	}
}
