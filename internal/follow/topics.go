// Package follow is what Follow and Watch of those backends have in common whose
// servers send word when something changes: whoever waits then looks for itself.
package follow

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Topics are what the calls of one client wait for: queues and cells that change.
type Topics struct {
	// Keep is how many topics are kept for the next call although nobody uses them.
	Keep int

	usable func(context.Context) error
	closed <-chan struct{}

	mu       sync.Mutex
	last     uint64
	byName   map[string]*Topic
	byNumber map[uint64]*Topic
}

// Topic serves all calls of this client that wait for the same.
type Topic struct {
	Number  uint64 // unlike that of any other: servers may know the topic by it
	of      *Topics
	calls   int
	changed chan struct{} // closed at the next change; guarded by Topics.mu
}

// New makes the topics of a client. Usable says why a call may not go on, and closed
// is closed when it may say so of all.
func New(usable func(context.Context) error, closed <-chan struct{}) *Topics {
	return &Topics{usable: usable, closed: closed, byName: map[string]*Topic{}, byNumber: map[uint64]*Topic{}}
}

// QueueChanged is called when there is word of a change of a queue. It waits for nothing,
// as the others do not.
func (t *Topics) QueueChanged(name string) {
	t.changed(func() *Topic { return t.byName[ofQueue(name)] })
}

// CellChanged is QueueChanged for a cell.
func (t *Topics) CellChanged(name string) { t.changed(func() *Topic { return t.byName[ofCell(name)] }) }

// Changed is QueueChanged or CellChanged for a topic that the server knows by its number.
func (t *Topics) Changed(number uint64) { t.changed(func() *Topic { return t.byNumber[number] }) }

func ofQueue(name string) string { return "queue " + name }
func ofCell(name string) string  { return "cell " + name }

func (t *Topics) changed(find func() *Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := find(); p != nil {
		p.ring()
	}
}

// AllChanged is called when word may have been missed.
func (t *Topics) AllChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byName {
		p.ring()
	}
}

func (p *Topic) ring() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Topic returns the one of the name, until release.
func (t *Topics) Topic(name string) (p *Topic, release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p = t.byName[name]
	if p == nil {
		t.last++
		p = &Topic{Number: t.last, of: t, changed: make(chan struct{})}
		t.byName[name], t.byNumber[p.Number] = p, p
	}
	p.calls++
	return p, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if p.calls--; p.calls == 0 && len(t.byName) > t.Keep {
			delete(t.byName, name)
			delete(t.byNumber, p.Number)
		}
	}
}

// News is closed by the next change.
func (p *Topic) News() <-chan struct{} {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.changed
}

// next is when to look again: after a rest, as soon as there is word of a change, which
// may have come meanwhile, or when again is over.
type next struct{ rest, again time.Duration }

// until calls look until it is done, fails for good, or may not go on. An error that
// passes does not end it: the server restarts, or the end of another call's context has
// ended the connection that both used.
func (t *Topics) until(ctx context.Context, name string, look func(*Topic) (done bool, n next, err error)) error {
	p, release := t.Topic(name)
	defer release()
	var pauses backoff.Backoff
	for {
		if err := t.usable(ctx); err != nil {
			return err
		}
		news := p.News()
		done, n, err := look(p)
		switch {
		case driver.IsPermanent(err):
			return err
		case err != nil:
			n = next{rest: pauses.Next()}
		case done:
			return nil
		default:
			pauses = backoff.Backoff{}
		}
		t.wait(ctx, nil, n.rest)
		t.wait(ctx, news, n.again)
	}
}

// wait waits for news, for d at most.
func (t *Topics) wait(ctx context.Context, news <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	case <-t.closed:
	}
}
