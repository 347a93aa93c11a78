package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Memory is a [Store] in the memory of one process, for resources that this process owns and serves to the holders of
// locks: a device, a cache, an API of another service. It keeps some 300 bytes, and the name, for each. The zero value
// is empty.
//
// It forgets with its process. A server that restarts, or that has a second replica, must keep the token where the
// resource is: see [Table] and [File].
type Memory struct {
	Most int // resources that it keeps; 0: DefaultMost. ErrFull for another one

	mu        sync.Mutex
	resources map[string]*kept
}

// DefaultMost is how many resources a [Memory] keeps: whoever can send names to a server cannot take all of its memory.
const DefaultMost = 100_000

// ErrFull: a [Memory] keeps as many resources as it may, and this is another one.
var ErrFull = errors.New("too many resources: set Memory.Most, or use a Table")

// kept is what a Memory keeps of a resource.
type kept struct {
	turn chan struct{} // holds a value while an f runs
	seen int64         // the largest token; the turn guards it
}

// Do is [Store.Do]. One f of a resource runs at a time; the others wait, until their contexts end. f must not use the
// resource itself, and should be short: the next holder waits for it.
func (m *Memory) Do(ctx context.Context, resource string, g Grant, f func() error) error {
	token, err := token(g)
	if err != nil {
		return err
	}
	m.mu.Lock()
	k := m.resources[resource]
	if k == nil {
		if len(m.resources) >= cmp.Or(m.Most, DefaultMost) {
			m.mu.Unlock()
			return fmt.Errorf("fence %s: %w", resource, ErrFull)
		}
		if m.resources == nil {
			m.resources = map[string]*kept{}
		}
		k = &kept{turn: make(chan struct{}, 1)}
		m.resources[resource] = k
	}
	m.mu.Unlock()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.turn }()
	if token < k.seen {
		return &StaleError{Resource: resource, Token: uint64(token), Seen: uint64(k.seen)}
	}
	k.seen = token
	if err := ctx.Err(); err != nil { // the wait may have been long
		return err
	}
	return f()
}
