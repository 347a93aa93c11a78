package zklock

import (
	"slices"
	"sync"
)

// The kinds of events that the server sends.
const (
	nodeCreated     = 1
	nodeDeleted     = 2
	nodeChanged     = 3
	childrenChanged = 4
)

// watch is told once of the next event at a node, or of the end of the
// connection, after which anything may have happened.
type watch struct {
	path     string
	children bool          // else the node itself
	bell     chan struct{} // of one place; of whoever listens to several watches

	mu   sync.Mutex
	what int32 // 0: the connection has ended
	end  bool
}

// watch begins to listen. The caller then has the server watch the node, so
// that no event is missed; or calls ignore.
func (t *Tap) watch(path string, children bool, bell chan struct{}) *watch {
	w := &watch{path: path, children: children, bell: bell}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched[path] = append(t.watched[path], w)
	return w
}

func (t *Tap) ignore(w *watch) {
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

// The client would keep a channel for each request that sets a watch until the
// watch fires, which may be never, and set all watches again after each lost
// connection. So it is asked to read, and the request is made one that sets a watch
// on its way.
type aim struct {
	op   int32
	path string
}

// arm has the next request of this kind set a watch.
func (t *Tap) arm(op int32, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed[aim{op, path}]++
}

// armedAs returns a request as it is to be sent. One that takes the watch of another for
// the same node comes before that.
func (t *Tap) armedAs(w *wire, op int32, request []byte) []byte {
	if op != opGetData && op != opGetChildren2 && op != opExists {
		return request
	}
	path, ok := text(request[12:])
	if !ok {
		return request
	}
	t.mu.Lock()
	n := t.armed[aim{op, path}]
	if n == 0 || t.wire != w { // what is sent over a connection that has ended is lost
		t.mu.Unlock()
		return request
	}
	if n == 1 {
		delete(t.armed, aim{op, path})
	} else {
		t.armed[aim{op, path}] = n - 1
	}
	t.mu.Unlock()
	request = slices.Clone(request) // the client's own stays as it is
	request[len(request)-1] = 1
	return request
}

// event tells whoever watches the node.
func (t *Tap) event(what int32, path string) {
	t.mu.Lock()
	var told, rest []*watch
	for _, w := range t.watched[path] {
		if hit := what == nodeDeleted || (what == childrenChanged) == w.children; hit {
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
	t.watched = map[string][]*watch{}
	clear(t.armed) // those who have set them are told
	t.mu.Unlock()
	for _, ws := range all {
		for _, w := range ws {
			w.tell(0)
		}
	}
}

func (w *watch) tell(what int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end {
		return
	}
	w.what, w.end = what, true
	ring(w.bell)
}

// ring wakes whoever listens, who then looks at everything.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// fired reports what has happened, if anything has.
func (w *watch) fired() (what int32, yes bool) {
	if w == nil {
		return 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.what, w.end
}
