package zk

import "sync"

// The kinds of events that the server sends.
const (
	NodeCreated     = 1
	NodeDeleted     = 2
	NodeChanged     = 3
	ChildrenChanged = 4
)

// Watch is told once of the next event at a node, or of the end of the
// connection, after which anything may have happened.
type Watch struct {
	path     string
	children bool   // else the node itself
	told     func() // waits for nothing

	mu   sync.Mutex
	what int32 // 0: the connection has ended
	end  bool
}

// Watch begins to listen. The caller then has the server watch the node, so
// that no event is missed; or calls Ignore. Told is called once.
func (t *Tap) Watch(path string, children bool, told func()) *Watch {
	w := &Watch{path: path, children: children, told: told}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched[path] = append(t.watched[path], w)
	return w
}

// Ignore ends a watch. The server's own stands until the event.
func (t *Tap) Ignore(w *Watch) {
	if w == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.watched[w.path]
	for i := range all {
		if all[i] == w {
			all = append(all[:i], all[i+1:]...)
			break
		}
	}
	if len(all) == 0 {
		delete(t.watched, w.path)
	} else {
		t.watched[w.path] = all
	}
}

// event tells whoever watches the node.
func (t *Tap) event(what int32, path string) {
	t.mu.Lock()
	var told, rest []*Watch
	for _, w := range t.watched[path] {
		if hit := what == NodeDeleted || (what == ChildrenChanged) == w.children; hit {
			told = append(told, w)
		} else {
			rest = append(rest, w)
		}
	}
	if len(rest) == 0 {
		delete(t.watched, path)
	} else {
		t.watched[path] = rest
	}
	t.mu.Unlock()
	for _, w := range told {
		w.tell(what)
	}
}

// invalidate tells all watches that the connection has ended.
func (t *Tap) invalidate() {
	t.mu.Lock()
	all := t.watched
	t.watched = map[string][]*Watch{}
	t.mu.Unlock()
	for _, ws := range all {
		for _, w := range ws {
			w.tell(0)
		}
	}
}

func (w *Watch) tell(what int32) {
	w.mu.Lock()
	first := !w.end
	if first {
		w.what, w.end = what, true
	}
	w.mu.Unlock()
	if first {
		w.told()
	}
}

// ring wakes whoever listens, who then looks at everything.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Fired reports what has happened, if anything has.
func (w *Watch) Fired() (what int32, yes bool) {
	if w == nil {
		return 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.what, w.end
}

// Live: nothing has happened since it was made. Of none it is false.
func (w *Watch) Live() bool {
	_, fired := w.Fired()
	return w != nil && !fired
}
