package sqlitelock

import "sync"

// bells wake those who wait for a change of a queue or a cell.
type bells struct {
	mu  sync.Mutex
	all map[string]chan struct{} // closed at the next change
}

// listen returns a channel that is closed at the next change.
func (b *bells) listen(what, name string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.all[what+name]
	if c == nil {
		c = make(chan struct{})
		if b.all == nil {
			b.all = map[string]chan struct{}{}
		}
		b.all[what+name] = c
	}
	return c
}

func (b *bells) ring(what, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.all[what+name]; c != nil {
		close(c)
		delete(b.all, what+name)
	}
}

func (b *bells) ringAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.all {
		close(c)
	}
	clear(b.all)
}
