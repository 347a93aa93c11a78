// Package coalesce lets many who ask for the same work share it: work that is under way
// is done once more, however many have asked for it meanwhile, since it may have begun
// too early to see what they mean.
package coalesce

import "sync"

// Tasks is work under way, by name. The zero value is ready.
type Tasks struct {
	mu    sync.Mutex
	again map[string]bool // those under way; true: to be done once more
}

// Begin asks for work. It reports whether the caller is to do it, again and again until
// More says no or the caller gives up with End.
func (t *Tasks) Begin(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, under := t.again[name]; under {
		t.again[name] = true
		return false
	}
	if t.again == nil {
		t.again = map[string]bool{}
	}
	t.again[name] = false
	return true
}

// More reports, of work that was done, whether it is to be done once more. If not, it is
// not under way any more.
func (t *Tasks) More(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.again[name] {
		t.again[name] = false
		return true
	}
	delete(t.again, name)
	return false
}

// End gives work up, whatever was asked for meanwhile.
func (t *Tasks) End(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.again, name)
}
