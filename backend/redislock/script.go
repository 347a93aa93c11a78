package redislock

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

var (
	//go:embed lua/format.lua
	formatText string
	//go:embed lua/append.lua
	appendText string
	//go:embed lua/pass.lua
	passText string
	//go:embed lua/queue.lua
	queueText string
	//go:embed lua/take.lua
	takeText string
	//go:embed lua/drop.lua
	dropText string
	//go:embed lua/extend.lua
	extendText string
	//go:embed lua/join.lua
	joinText string
	//go:embed lua/leave.lua
	leaveText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/shrink.lua
	shrinkText string
	//go:embed lua/keep.lua
	keepText string
	//go:embed lua/ask.lua
	askText string
	//go:embed lua/raise.lua
	raiseText string
	//go:embed lua/follow.lua
	followText string
	//go:embed lua/note.lua
	noteText string
	//go:embed lua/swap.lua
	swapText string
	//go:embed lua/watch.lua
	watchText string
)

var (
	takeScript   = newScript(takeText)
	dropScript   = newScript(dropText)
	extendScript = newScript(extendText)
	joinScript   = newScript(formatText + appendText + queueText + joinText)
	leaveScript  = newScript(formatText + passText + queueText + leaveText)
	renewScript  = newScript(formatText + queueText + renewText)
	shrinkScript = newScript(formatText + queueText + shrinkText)
	keepScript   = newScript(formatText + queueText + keepText)
	askScript    = newScript(formatText + queueText + askText)
	raiseScript  = newScript(formatText + queueText + raiseText)
	followScript = newScript(formatText + queueText + followText)
	swapScript   = newScript(swapText)
	watchScript  = newScript(watchText)
	noteScript   = newScript(formatText + noteText)
	highScript   = newScript("redis.call('GET', KEYS[1]) redis.call('GET', KEYS[2]) return 1")
	echoScript   = newScript("return redis.call('PUBLISH', ARGV[1], ARGV[2])")
)

// script is sent by its hash, and in full when the server does not know it, which
// may be at any time.
type script struct{ text, hash string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// call is one script to be run.
type call struct {
	script *script
	keys   []string
	args   []string
}

func (c call) byHash(b rueidis.Builder) rueidis.Completed {
	return b.Evalsha().Sha1(c.script.hash).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

func (c call) inFull(b rueidis.Builder) rueidis.Completed {
	return b.Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

func unknownScript(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && e.IsNoScript()
}

// run executes one script. Its callers have looked whether ctx has ended.
func (s *store) run(ctx context.Context, c call) (rueidis.RedisMessage, error) {
	m, err := s.do(ctx, c.byHash(s.client.B()))
	if err != nil && unknownScript(err) {
		m, err = s.do(ctx, c.inFull(s.client.B()))
	}
	return m, garbled(err, c.keys...)
}

// do sends a command, and returns with its answer or when ctx or the driver ends.
func (s *store) do(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	s.exchanges.Add(1)
	if s.own {
		c := s.conns.Begin(ctx)
		m, err := s.client.Do(c, cmd).ToMessage()
		return m, s.noted(c.End(err))
	}
	done := make(chan rueidis.RedisResult, 1)
	go func() { done <- s.client.Do(ctx, cmd) }()
	select {
	case r := <-done:
		return r.ToMessage()
	case <-ctx.Done():
		return rueidis.RedisMessage{}, ctx.Err()
	case <-s.ctx.Done():
		return rueidis.RedisMessage{}, errClosed
	}
}

// doMulti is do for a pipeline.
func (s *store) doMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	if s.own {
		c := s.conns.Begin(ctx)
		answers := s.client.DoMulti(c, cmds...)
		_ = c.End(nil)
		return answers
	}
	done := make(chan []rueidis.RedisResult, 1)
	go func() { done <- s.client.DoMulti(ctx, cmds...) }()
	err := errClosed
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
	}
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(cmds))
}

// run1 executes a script that returns a number.
func (s *store) run1(ctx context.Context, c call) (int64, error) {
	m, err := s.run(ctx, c)
	if err != nil {
		return 0, err
	}
	return m.AsInt64()
}

// runN executes a script that returns at least n numbers.
func (s *store) runN(ctx context.Context, c call, n int) ([]int64, error) {
	m, err := s.run(ctx, c)
	if err != nil {
		return nil, err
	}
	return numbers(m, n)
}

func numbers(m rueidis.RedisMessage, n int) ([]int64, error) {
	all, err := m.AsIntSlice()
	if err == nil && len(all) < n {
		err = fmt.Errorf("redis: the script answers %d numbers, not %d", len(all), n)
	}
	return all, err
}
