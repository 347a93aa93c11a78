package redislock

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/clocktoken"
)

func (s *store) Ask(ctx context.Context, queue, id string, what driver.Demand) (unsettled bool, err error) {
	letter := map[driver.Demand]string{driver.Revoke: "r", driver.Evict: "e", driver.Force: "x"}[what]
	return s.change(ctx, askScript, queue, id, letter)
}

// Resize sets the number with the first script that meets no dead tickets of another kind, and looks at all
// waiters, some with each script.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (unsettled bool, err error) {
	keys := s.queue(queue).keys
	to, from := strconv.FormatInt(capacity, 10), int64(0)
	for {
		answer, err := s.runN(ctx, call{resizeScript, keys, []string{to, strconv.FormatInt(from, 10)}}, 3)
		switch {
		case err != nil:
			return false, err
		case answer[0] == codeMismatch && answer[1] != 0: // dead ones were in it
			continue
		}
		if to, from = "", answer[2]; from < 0 {
			return answer[1] != 0, codeError(answer[0])
		}
	}
}

func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	unsettled, err := s.change(ctx, raiseScript, queue, strconv.FormatUint(floor, 10))
	s.settle(ctx, queue, unsettled)
	return err
}

// RaiseAll waits for the clock, which tokens follow. Then nothing is above them that the clock has not passed: so a key
// that is above all tokens, and cannot be read, goes.
func (s *store) RaiseAll(ctx context.Context, floor uint64) error {
	if err := clocktoken.Pass(ctx, floor, s.Clock); err != nil || s.high == "" {
		return err
	}
	_, err := s.run(ctx, call{mendScript, []string{s.high}, nil})
	return err
}

// change runs a script that answers with a code, and whether there is more to do.
func (s *store) change(ctx context.Context, c *script, queue string, args ...string) (unsettled bool, err error) {
	answer, err := s.runN(ctx, call{c, s.queue(queue).keys, args}, 2)
	if err != nil {
		return false, err
	}
	return answer[1] != 0, codeError(answer[0])
}

// Settle runs the script of a heartbeat without tickets.
func (s *store) Settle(ctx context.Context, queue string) (unsettled bool, err error) {
	answer, err := s.runN(ctx, call{renewScript, s.queue(queue).keys, []string{"-", "0", "0"}}, 2)
	return err == nil && answer[0] != 0, err
}

// settle goes on with what one script may not do alone. If it fails, a heartbeat goes on.
func (s *store) settle(ctx context.Context, queue string, unsettled bool) {
	for err := error(nil); unsettled && err == nil; {
		unsettled, err = s.Settle(ctx, queue)
	}
}

// Clock is the time of the node whose clock is the furthest behind.
func (s *store) Clock(ctx context.Context) (micros int64, err error) {
	micros = math.MaxInt64
	for _, node := range s.client.Nodes() {
		s.exchanges.Add(1)
		at, err := node.Do(ctx, node.B().Time().Build()).AsIntSlice()
		if err == nil && len(at) != 2 {
			err = fmt.Errorf("TIME answers %d numbers", len(at))
		}
		if err != nil {
			return 0, s.noted(err)
		}
		micros = min(micros, at[0]*1_000_000+at[1])
	}
	return micros, nil
}
