package sqlitelock

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// maxWatched bounds how many sessions one driver watches. If there are more, each
// watches a random part of them, so that together they watch all.
const maxWatched = 256

// vigil notices at once when another session dies, as long as somebody waits.
type vigil struct {
	d *Driver

	mu      sync.Mutex
	watched map[int64]*wake
	opened  int64 // how many sessions had ever been opened when they were listed
	wanted  int64 // how many there must have been, so that none is missed
	listing bool
	closed  bool

	suspects map[string]bool // those whose messages were refused, while they are looked after
}

// attend watches the sessions that there are, of which opened were ever opened.
// Those that come later stand behind all who wait now.
func (v *vigil) attend(opened int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wanted = max(v.wanted, opened)
	if v.listing || v.closed || v.opened >= v.wanted {
		return
	}
	v.listing = v.d.background(func(ctx context.Context) {
		for v.list(ctx) {
		}
	})
}

// list begins to watch the sessions that are new. It reports whether there may be
// more meanwhile.
func (v *vigil) list(ctx context.Context) (more bool) {
	d := v.d
	var all []peer
	var opened int64
	waitsIn := d.tickets.waitsIn()
	err := d.view(ctx, func(c conn, _ moment) error {
		if _, err := c.one("SELECT opened FROM file", func(s *sqlite.Stmt) { opened = s.ColumnInt64(0) }); err != nil {
			return err
		}
		var err error
		all, err = c.peers("SELECT sid, id FROM session WHERE expires > 0")
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if len(all) <= maxWatched || err != nil {
			return err
		}
		return c.inFront(all, waitsIn)
	})
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.listing = false // the next who waits tries again
		return false
	}
	var new []peer
	v.mu.Lock()
	v.opened = opened
	for _, p := range all {
		if len(v.watched)+len(new) >= maxWatched {
			break
		}
		if v.watched[p.sid] == nil && d.session(p.sid) == nil {
			new = append(new, p)
		}
	}
	v.mu.Unlock()
	for _, p := range new {
		v.watch(ctx, p)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listing = v.opened < v.wanted
	return v.listing
}

// inFront sorts the sessions first that stand in front in these queues.
func (c conn) inFront(all []peer, queues []string) error {
	front := map[int64]bool{}
	for _, q := range queues {
		if err := c.all("SELECT sid FROM ticket WHERE queue = ? ORDER BY n LIMIT ?", func(s *sqlite.Stmt) bool {
			front[s.ColumnInt64(0)] = true
			return true
		}, q, maxWatched); err != nil {
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b peer) int {
		switch {
		case front[a.sid] == front[b.sid]:
			return 0
		case front[a.sid]:
			return -1
		}
		return 1
	})
	return nil
}

// peer is a session of another driver.
type peer struct {
	sid int64
	id  string
}

func (v *vigil) watch(ctx context.Context, p peer) {
	w, refused := v.d.file.folder.wake(p.id)
	if w == nil {
		if refused {
			v.d.background(func(ctx context.Context) { v.d.suspect(ctx, p) })
		}
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || v.watched[p.sid] != nil {
		w.close()
		return
	}
	if v.watched == nil {
		v.watched = map[int64]*wake{}
	}
	v.watched[p.sid] = w
	started := v.d.background(func(ctx context.Context) {
		w.wait()
		v.mu.Lock()
		delete(v.watched, p.sid)
		v.mu.Unlock()
		w.close()
		v.d.suspect(ctx, p)
	})
	if !started {
		delete(v.watched, p.sid)
		w.close()
	}
}

func (v *vigil) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	for _, w := range v.watched {
		w.close()
	}
}

// suspect looks whether a session is dead that has lost its socket. Its lock may
// take a moment longer to go, and while somebody else sees to it, this one waits
// in case they die as well. Whoever died may have committed something and not
// told of it any more.
func (d *Driver) suspect(ctx context.Context, p peer) {
	d.bury(ctx, p)
	d.bells.ringAll()
	_ = d.look(ctx, nil)
}

func (d *Driver) bury(ctx context.Context, p peer) {
	for pause := time.Millisecond; pause < time.Second && ctx.Err() == nil; pause *= 2 {
		if swept, missing := d.probe(ctx, p); swept || missing {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// probe ends a session whose owner is dead.
func (d *Driver) probe(ctx context.Context, p peer) (swept, missing bool) {
	grave, missing := d.file.folder.dead(p.id)
	if grave == nil {
		return false, missing
	}
	defer grave.Close()
	err := d.change(ctx, keep, func(t *tx) error {
		return t.exec("UPDATE session SET expires = 0 WHERE sid = ?", p.sid)
	})
	if err == nil {
		err = d.sweep(ctx)
	}
	return err == nil, false
}

// abandoned is called for a session whose driver does not receive messages.
func (d *Driver) abandoned(to address) {
	if to.session == "" {
		return
	}
	v := &d.vigil
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.suspects[to.session] {
		return
	}
	if v.suspects == nil {
		v.suspects = map[string]bool{}
	}
	v.suspects[to.session] = d.background(func(ctx context.Context) {
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.suspects, to.session)
		}()
		sid := int64(0)
		err := d.view(ctx, func(c conn, _ moment) error {
			_, err := c.one("SELECT sid FROM session WHERE id = ?", func(s *sqlite.Stmt) { sid = s.ColumnInt64(0) }, to.session)
			return err
		})
		if err == nil && sid != 0 {
			d.suspect(ctx, peer{sid, to.session})
		}
	})
}

// reap ends the dead sessions among the first that hold a queue, and reports
// whether there were any.
func (d *Driver) reap(ctx context.Context, queue string) (found bool) {
	var holders []peer
	err := d.view(ctx, func(c conn, _ moment) (err error) {
		holders, err = c.peers(`SELECT s.sid, s.id FROM queue q JOIN session s ON s.sid = q.sid WHERE q.name = ?1 AND q.id IS NOT NULL
			UNION SELECT s.sid, s.id FROM (SELECT t.sid FROM queue q JOIN ticket t ON t.queue = q.name AND t.n <= q.granted WHERE q.name = ?1 ORDER BY t.n LIMIT 16) h JOIN session s ON s.sid = h.sid`, queue)
		return err
	})
	if err != nil {
		return false
	}
	for _, p := range holders {
		if d.session(p.sid) != nil {
			continue
		}
		if swept, _ := d.probe(ctx, p); swept {
			found = true
		}
	}
	return found
}
