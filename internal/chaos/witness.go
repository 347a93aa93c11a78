package chaos

import (
	"fmt"
	"sync"

	"github.com/interlock-go/interlock"
)

// Witness sees who holds one lock, by the word of the holders themselves: at most one at a
// time, with tokens that grow.
type Witness struct {
	mu     sync.Mutex
	holder *interlock.Lease
	token  uint64
}

// Enter notes a holder, unless it has ended already, and knows. The one before it must
// have left, or have ended by its own account.
func (w *Witness) Enter(l *interlock.Lease) (holds bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch h := w.holder; {
	case l.Err() != nil:
		return false, nil
	case h != nil && h.Err() == nil:
		return true, fmt.Errorf("%q is held with the tokens %d and %d at once", l.Name(), h.Token(), l.Token())
	case l.Token() <= w.token:
		return true, fmt.Errorf("%q has the token %d after %d", l.Name(), l.Token(), w.token)
	}
	w.holder, w.token = l, l.Token()
	return true, nil
}

// Leave is called before the holder releases.
func (w *Witness) Leave(l *interlock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder == l {
		w.holder = nil
	}
}
