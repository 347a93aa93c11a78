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
	take []string    // as take.lua expects them
	busy atomic.Bool // take.lua would probably be in vain
}

// queues keeps what was used last, so that it need not be made for each call.
type queues struct {
	mu  sync.RWMutex
	all map[string]*queue
}

const mostQueues = 4096

func (q *queues) get(name string) *queue {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.all[name]
}

func (q *queues) add(name, prefix, high string) *queue {
	base := "interlock:{" + prefix + name + "}:"
	n := &queue{name: name, keys: []string{
		prefix + name, base + "t", base + "q", base + "w", base + "e", base + "x", base + "f",
	}}
	n.take = n.keys[:3:3]
	if high != "" {
		n.keys, n.take = append(n.keys, high), append(n.take, high)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if old := q.all[name]; old != nil {
		return old
	}
	if q.all == nil || len(q.all) >= mostQueues {
		q.all = map[string]*queue{}
	}
	q.all[name] = n
	return n
}

// queue returns what is kept of a queue.
func (s *store) queue(name string) *queue {
	if q := s.queues.get(name); q != nil {
		return q
	}
	return s.queues.add(name, s.prefix, s.high)
}

// back is the error for a queue whose tokens could go back.
func (q *queue) back() error {
	keys := q.keys[1]
	if len(q.keys) > 7 {
		keys += " (or, if that is not there, " + q.keys[7] + ")"
	}
	return driver.Permanent(fmt.Errorf("redis: %s cannot be read, so that the tokens of %q could go back (interlock token raise NAME FLOOR writes it anew, with a FLOOR above all tokens that were granted)", keys, q.name))
}

// noteKeys are those of a note that replicas are to have.
func (q *queue) noteKeys() []string {
	return []string{q.keys[0], q.keys[2], "interlock:{" + q.keys[0] + "}:n"}
}

// loneKeys are for scripts that need no more.
func (q *queue) loneKeys() []string { return q.keys[:2] }
