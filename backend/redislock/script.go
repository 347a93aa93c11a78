package redislock

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

//go:embed lua
var files embed.FS

var (
	loneJoinScript  = readScript("lone_join")
	loneLeaveScript = readScript("lone_leave")
	loneRenewScript = readScript("lone_renew")
	joinScript      = readScript("format", "fast_join", "common", "join")
	leaveScript     = readScript("format", "fast_leave", "common", "leave")
	renewScript     = readScript("format", "common", "renew")
	shrinkScript    = readScript("format", "common", "shrink")
	keepScript      = readScript("format", "common", "keep")
	askScript       = readScript("format", "common", "ask")
	resizeScript    = readScript("format", "common", "resize")
	raiseScript     = readScript("format", "common", "raise")
	followScript    = readScript("format", "common", "follow")
	swapScript      = readScript("swap")
	watchScript     = readScript("watch")
	noteScript      = readScript("format", "note")
	highScript      = newScript("redis.call('GET', KEYS[1]) redis.call('GET', KEYS[2]) return 1")
	mendScript      = newScript(`local high = redis.pcall('GET', KEYS[1])
if high and not (type(high) == 'string' and string.match(high, '^%d+$') and tonumber(high) < 2 ^ 51) then redis.call('DEL', KEYS[1]) end
return 1`)
	echoScript = newScript("return redis.call('PUBLISH', ARGV[1], ARGV[2])")
)

// script is sent by its hash, and in full when the server does not know it, which
// may be at any time.
type script struct{ text, hash string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// readScript makes a script of the texts of files, one after the other.
func readScript(names ...string) *script {
	var all []byte
	for _, name := range names {
		text, err := files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is not in this package
		}
		all = append(all, text...)
	}
	return newScript(string(all))
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
		return m, s.noted(s.conns.End(c, err))
	}
	r, err := waitFor(ctx, s, func() rueidis.RedisResult { return s.client.Do(ctx, cmd) })
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return r.ToMessage()
}

// doMulti is do for a pipeline.
func (s *store) doMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	if s.own {
		c := s.conns.Begin(ctx)
		answers := s.client.DoMulti(c, cmds...)
		_ = s.conns.End(c, nil)
		return answers
	}
	answers, err := waitFor(ctx, s, func() []rueidis.RedisResult { return s.client.DoMulti(ctx, cmds...) })
	if err != nil {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(cmds))
	}
	return answers
}

// waitFor waits for a client of the program until ctx or the driver ends: the client may go on then.
func waitFor[T any](ctx context.Context, s *store, do func() T) (answer T, err error) {
	done := make(chan T, 1)
	go func() { done <- do() }()
	select {
	case answer = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
		err = errClosed
	}
	return answer, err
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
