package view

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Sample is what one look at the backend has shown.
type Sample struct {
	At        time.Time
	Locks     []interlock.Queue // by name; not to be changed
	More      bool              // there are more than a sample has
	Took      time.Duration
	Usual     time.Duration // time of a list: the shorter of Took here and in the sample before
	Exchanges uint64        // that it took, and what the client did beside it
	Err       error         // why the rest could not be read
}

// MostLocks is how many locks a sample has.
const MostLocks = 20_000

// Sampler lists the locks of a backend for all who look. Without calls it does nothing.
//
// A list is shared: it is at most a second old, or nine times as old as it usually takes to make, so that a backend with
// very many locks is not read for more than a tenth of the time, however many look. One that took long, such as in an
// outage, does not put off the next.
type Sampler struct {
	c       *interlock.Client
	prefix  string
	history *History

	turn chan struct{} // has room for the call that takes a sample

	mu   sync.Mutex
	last Sample
}

// NewSampler returns a sampler of the locks whose names begin with prefix. What its samples tell apart it adds to
// history, which may be nil.
func NewSampler(c *interlock.Client, prefix string, history *History) *Sampler {
	return &Sampler{c: c, prefix: prefix, history: history, turn: make(chan struct{}, 1)}
}

// Rest is how long a sample is new.
func (s Sample) Rest() time.Duration { return max(time.Second, 9*s.Usual) }

// Last is the latest sample; its At is zero if there is none.
func (s *Sampler) Last() Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Next returns a sample that is later than after, as soon as one may be taken; the zero time is satisfied by one that
// is new. While the backend does not answer it asks again, until ctx ends; then the error says why it did not answer,
// if that is known.
func (s *Sampler) Next(ctx context.Context, after time.Time) (Sample, error) {
	var outage error
	for {
		last := s.Last()
		if wait := last.Rest() - time.Since(last.At); wait > 0 {
			if last.At.After(after) {
				return last, nil
			}
			if backoff.Sleep(ctx, wait) != nil {
				return Sample{}, cmp.Or(outage, context.Cause(ctx))
			}
			continue
		}
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return Sample{}, cmp.Or(outage, context.Cause(ctx))
		}
		if s.Last().At != last.At { // another call has taken one meanwhile
			<-s.turn
			continue
		}
		sample, err := s.take(ctx)
		<-s.turn
		if err == nil {
			return sample, nil
		}
		if ctx.Err() == nil {
			outage = err
		}
		if backoff.Sleep(ctx, time.Second) != nil {
			return Sample{}, cmp.Or(outage, context.Cause(ctx))
		}
	}
}

// take reads the backend once, and tells the history. The error is of a backend that does not answer, or of ctx: then
// the sample before it stays the latest.
func (s *Sampler) take(ctx context.Context) (Sample, error) {
	began, before := time.Now(), s.c.Admin().Exchanges()
	var sample Sample
	for q, err := range s.c.Admin().Queues(ctx, s.prefix) {
		if err != nil {
			sample.Err = err
			break
		}
		if len(sample.Locks) == MostLocks {
			sample.More = true
			break
		}
		sample.Locks = append(sample.Locks, q)
	}
	sample.At = time.Now()
	sample.Took, sample.Exchanges = sample.At.Sub(began), s.c.Admin().Exchanges()-before
	if err := cmp.Or(context.Cause(ctx), sample.Err); err != nil && (ctx.Err() != nil || !driver.IsPermanent(err)) {
		return sample, err
	}
	s.mu.Lock()
	if sample.Usual = sample.Took; !s.last.At.IsZero() {
		sample.Usual = min(sample.Took, s.last.Took)
	}
	s.last = sample
	s.mu.Unlock()
	if s.history != nil {
		s.history.add(sample)
	}
	return sample, nil
}
