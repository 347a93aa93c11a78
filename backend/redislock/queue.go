package redislock

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/driver"
)

// queue is what is kept of a queue from call to call: the names of its keys, and
// a guess.
type queue struct {
	name string
	keys []string    // as the scripts expect them
	take []string    // as lone_join.lua expects them
	busy atomic.Bool // lone_join.lua would probably be in vain
}

// queues keeps what was used last, so that it need not be made for each call.
type queues struct {
	mu  sync.Mutex
	all map[string]*queue // by name
}

const mostQueues = 4096

// queue returns what is kept of a queue.
func (s *store) queue(name string) *queue {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	if q := s.queues.all[name]; q != nil {
		return q
	}
	base := "interlock:{" + s.prefix + name + "}:"
	q := &queue{name: name, keys: []string{
		s.prefix + name, base + "t", base + "q", base + "w", base + "e", base + "x", base + "f",
	}}
	q.take = q.keys[:3:3]
	if s.high != "" {
		q.keys, q.take = append(q.keys, s.high), append(q.take, s.high)
	}
	if s.queues.all == nil || len(s.queues.all) >= mostQueues {
		s.queues.all = map[string]*queue{}
	}
	s.queues.all[name] = q
	return q
}

// back is the error for a queue whose tokens could go back.
func (q *queue) back() error {
	keys := q.keys[1]
	if len(q.keys) > 7 {
		keys += " (or, if that is not there, " + q.keys[7] + ", which raise-token --all mends)"
	}
	return driver.Permanent(fmt.Errorf("redis: %s cannot be read, so that the tokens of %q could go back (interlock admin raise-token NAME FLOOR writes it anew, with a FLOOR above all tokens that were granted)", keys, q.name))
}

// loneKeys are for scripts that need no more.
func (q *queue) loneKeys() []string { return q.keys[:2] }
