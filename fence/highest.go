package fence

import "sync"

// Highest remembers the largest token that it has seen, in memory, for a
// resource that one process owns and serves to the holders of a lock: a device,
// a cache, an API of another service. The zero value has seen none.
//
// It forgets with its process. A server that restarts, or that has a second
// replica, must keep the token where the resource is: see [Table] and [File].
type Highest struct {
	mu   sync.Mutex
	seen int64
}

// Check refuses the grant with ErrStale if a larger token has been seen, and
// otherwise refuses all smaller ones from now on. It says nothing of what
// happens after it returns: writes belong into [Highest.Do].
func (h *Highest) Check(g Grant) error {
	return h.Do(g, func() error { return nil })
}

// Do runs f if [Highest.Check] accepts the grant. It runs one f at a time, so
// that f ends before a larger token is accepted; f must not use h itself, and
// should be short: the next holder waits for it.
func (h *Highest) Do(g Grant, f func() error) error {
	token, err := token(g)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if token < h.seen {
		return &StaleError{Resource: "in memory", Token: uint64(token), Seen: uint64(h.seen)}
	}
	h.seen = token
	return f()
}
