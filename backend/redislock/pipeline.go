package redislock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
)

// each runs the calls in pipelines, and hands over the numbers of each answer with
// the local time before the call was sent. No pipeline may take longer than the limit; 0:
// as long as ctx lasts.
func (s *store) each(ctx context.Context, limit time.Duration, calls []call, done func(i int, answer []int64, sent driver.Instant, err error)) {
	s.eachMessage(ctx, limit, calls, func(i int, sent driver.Instant, m rueidis.RedisMessage, err error) {
		var answer []int64
		if n, failed := m.ToInt64(); err == nil && failed == nil {
			answer = []int64{n}
		} else if err == nil {
			answer, err = numbers(m, 1)
		}
		done(i, answer, sent, err)
	})
}

// eachMessage is each for any answer. In a Cluster every node gets its part, and
// one that cannot be reached fails only its own: all pipelines are under way at the
// same time, since each ends only with its slowest node.
func (s *store) eachMessage(ctx context.Context, limit time.Duration, calls []call, done func(i int, sent driver.Instant, m rueidis.RedisMessage, err error)) {
	parallel := 1
	if s.client.Mode() == rueidis.ClientModeCluster {
		parallel = 64
	}
	var group errgroup.Group
	group.SetLimit(parallel)
	var mu sync.Mutex
	for at := 0; at < len(calls); at += perPipeline {
		part := calls[at:min(at+perPipeline, len(calls))]
		group.Go(func() error {
			s.part(ctx, limit, part, func(i int, sent driver.Instant, m rueidis.RedisMessage, err error) {
				mu.Lock()
				defer mu.Unlock()
				done(at+i, sent, m, err)
			})
			return nil
		})
	}
	_ = group.Wait()
}

// part runs the calls of one pipeline, and once more the calls whose script the server did
// not know.
func (s *store) part(ctx context.Context, limit time.Duration, calls []call, done func(i int, sent driver.Instant, m rueidis.RedisMessage, err error)) {
	var again []call
	var places []int // of these among the calls
	sent := driver.Now()
	for i, r := range s.pipeline(ctx, limit, calls, call.byHash) {
		m, err := r.ToMessage()
		if err = s.noted(err); err != nil && unknownScript(err) {
			again, places = append(again, calls[i]), append(places, i)
			continue
		}
		done(i, sent, m, err)
	}
	if len(again) == 0 {
		return
	}
	sent = driver.Now()
	for k, r := range s.pipeline(ctx, limit, again, call.inFull) {
		m, err := r.ToMessage()
		done(places[k], sent, m, s.noted(err))
	}
}

// pipeline sends calls, within the limit if that is not 0.
func (s *store) pipeline(ctx context.Context, limit time.Duration, calls []call, form func(call, rueidis.Builder) rueidis.Completed) []rueidis.RedisResult {
	if err := s.usable(ctx); err != nil {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(calls))
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	answers := s.send(ctx, calls, form)
	if limit > 0 && ctx.Err() != nil { // the next one goes over connections that are not silent
		s.conns.EndSilent(2 * limit)
	}
	return answers
}

// send runs a pipeline over a connection of its own for heartbeats: calls do not wait behind
// long ones, and the connection for calls keeps its shorter way for single callers. The latter
// stands in if the other cannot be had, as at a server that is full, or is lost.
// In a Cluster the client knows which node is to get what.
func (s *store) send(ctx context.Context, calls []call, form func(call, rueidis.Builder) rueidis.Completed) []rueidis.RedisResult {
	through := func(run func(context.Context, ...rueidis.Completed) []rueidis.RedisResult) []rueidis.RedisResult {
		commands := make([]rueidis.Completed, len(calls))
		for i, c := range calls {
			commands[i] = form(c, s.client.B())
		}
		s.exchanges.Add(1)
		return run(ctx, commands...)
	}
	if s.client.Mode() == rueidis.ClientModeCluster {
		return through(s.client.DoMulti)
	}
	if own := s.heart(ctx); own != nil {
		answers := through(own.DoMulti)
		var failed error
		lost := false
		for _, r := range answers {
			if err := r.Error(); err != nil && !unknownScript(err) {
				failed = err
			}
			lost = lost || r.NonRedisError() != nil
		}
		own.Done(ctx, failed)
		if !lost || s.usable(ctx) != nil {
			return answers
		}
	}
	return through(s.doMulti)
}

// dialPatience is how long a pipeline waits for its own connection, and a third of its time at
// most. It is shorter than echoPatience, since the echo counts from before.
const dialPatience = echoPatience / 2

// heart is the connection for heartbeats, nil if there is none. One that is made too late for
// this caller is there for the next, and until then nobody waits for another.
func (s *store) heart(ctx context.Context) *conn.Dedicated {
	if s.late.Load() > 0 {
		return nil
	}
	limit := dialPatience
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/3)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	own, err := conn.Dedicate(ctx, s.ctx, s.client, func(c *conn.Dedicated) {
		c.Back()
		s.late.Add(-1)
	})
	if err != nil {
		s.late.Add(1)
	}
	return own
}
