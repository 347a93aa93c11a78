package sqlitelock

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver/exchange"

	"github.com/interlock-go/interlock/internal/folder"
)

// watcher notices the ends of other sessions, in a loop, which is Listen:
//
//   - It has a lifeline to each other session. If that breaks, the process has most likely died, and
//     the flock of the session decides.
//   - Its expiry timer fires when the next ticket of the file may expire: then it sweeps.
//   - Without a mailbox it looks now and then whether the file has changed.
//
// It does so while a ticket of this client waits, or a call follows a queue or watches a cell. The
// lifelines stay.
type watcher struct {
	changed chan struct{}  // has room for one: the loop is to look at the rest
	tasks   sync.WaitGroup // of the loop

	mu        sync.Mutex
	next      moment                     // when the expiry timer fires; 0: at once
	opened    int64                      // sessions that were ever opened when they were last listed
	wanted    int64                      // as many there must have been, so that none is missed that may be in front
	followed  time.Time                  // when a call of Follow or Watch last noted its client
	lifelines map[int64]*folder.Lifeline // by session
}

func (w *watcher) init() {
	w.changed, w.lifelines = make(chan struct{}, 1), map[int64]*folder.Lifeline{}
}

// wake has the loop look.
func (w *watcher) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// expect is called with the moment at which the next ticket or session expires unless it is
// renewed. While all sessions are renewed and have similar TTLs, it is put off before the timer fires.
func (w *watcher) expect(next moment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next < w.next {
		w.wake()
	}
	w.next = next
}

// sooner is called with an end that may be earlier than all that is known.
func (w *watcher) sooner(end moment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end < w.next {
		w.next = end
		w.wake()
	}
}

// attend is called for a waiter or follower, with how many sessions were ever opened: those that
// are opened later stand behind the waiter.
func (w *watcher) attend(opened int64, follows bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = max(w.wanted, opened)
	if follows {
		w.followed = time.Now()
	}
	w.wake()
}

// followTime is longer than a call of Follow or Watch waits before it notes its client anew.
const followTime = 30 * time.Second

func (w *watcher) state() (next moment, list, follows bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next, w.opened < w.wanted, !w.followed.IsZero() && time.Since(w.followed) < followTime
}

func (w *watcher) listed(opened int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened, w.wanted = opened, max(w.wanted, opened)
}

// maxWatched bounds how many sessions one client watches. If there are more, each watches a random
// part of them, so that together they watch all.
const maxWatched = 256

// pollEvery is how often the file is looked at where there are no messages.
const pollEvery = 100 * time.Millisecond

// Listen watches. Messages come at all times, as long as there is a mailbox.
func (s *store) Listen(ctx context.Context, _ string, up func(), receive func(exchange.Event)) error {
	ctx, stop := context.WithCancel(ctx)
	defer s.watcher.tasks.Wait()
	defer s.watcher.cut()
	defer stop()
	s.receiver.Store(&receive)
	up()
	version := int64(-1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, list, follows := s.watcher.state()
		if waits, _ := s.tickets.wait(""); waits || follows {
			now := s.now()
			pause := max(next.sub(now), 0) + time.Millisecond
			if list && s.list(ctx) != nil {
				pause = min(pause, time.Second) // the file is locked, say
			}
			if s.mailbox.Name == "" {
				pause = min(pause, pollEvery)
			}
			timer.Reset(pause)
		} else {
			timer.Stop()
		}
		select {
		case <-s.watcher.changed:
			continue
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.mailbox.Name == "" && s.poll(ctx, &version) {
			receive(exchange.Event{Type: exchange.Wake})
		}
		if next, _, _ := s.watcher.state(); next <= s.now() { // it was not put off
			s.expire(ctx)
		}
	}
}

// expire sweeps when the expiry timer fires. If that changes nothing, it is tried again later: the
// file may be locked, or have a row that no sweep finds.
func (s *store) expire(ctx context.Context) {
	err := s.sweep(ctx)
	if next, _, _ := s.watcher.state(); err != nil || next <= s.now() {
		s.watcher.expect(s.now().add(time.Second))
	}
}

// poll reports whether another client has changed the file.
func (s *store) poll(ctx context.Context, version *int64) (changed bool) {
	before := *version
	err := s.view(ctx, func(c conn, _ moment) error {
		_, err := c.one("PRAGMA data_version", func(r *sqlite.Stmt) { *version = r.ColumnInt64(0) })
		return err
	})
	return err == nil && *version != before
}

// cut ends the lifelines.
func (w *watcher) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lifelines {
		_ = l.Close()
	}
}

// list begins to watch the sessions that are new.
func (s *store) list(ctx context.Context) error {
	var all []peer
	var opened int64
	mine := s.tickets.some(1000)
	err := s.view(ctx, func(c conn, _ moment) (err error) {
		if _, err := c.one("SELECT opened FROM file", func(r *sqlite.Stmt) { opened = r.ColumnInt64(0) }); err != nil {
			return err
		}
		if all, err = c.peers("SELECT sid, id FROM session WHERE expires > 0"); err != nil {
			return err
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if len(all) <= maxWatched {
			return nil
		}
		return c.inFront(all, mine)
	})
	if err != nil {
		return err
	}
	s.watcher.listed(opened)
	for _, p := range all {
		if s.session(p.id) == nil && !s.watch(ctx, p) {
			break
		}
	}
	return nil
}

// inFront sorts those sessions first that have tickets in front of these, as far as 16 queues go.
func (c conn) inFront(all []peer, mine []number) error {
	front := map[int64]bool{}
	for queues := 0; len(mine) > 0 && queues < 16; mine = mine[1:] {
		before := len(front)
		if err := c.all("SELECT sid FROM ticket WHERE queue = ? AND n < ? ORDER BY n LIMIT ?", func(r *sqlite.Stmt) bool {
			front[r.ColumnInt64(0)] = true
			return true
		}, mine[0].queue, mine[0].n, maxWatched); err != nil {
			return err
		}
		if len(front) > before {
			queues++
		}
	}
	sortFirst(all, func(p peer) bool { return front[p.sid] })
	return nil
}

// sortFirst sorts those first that come first, and leaves both kinds in their order.
func sortFirst[T any](all []T, first func(T) bool) {
	slices.SortStableFunc(all, func(a, b T) int {
		switch {
		case first(a) == first(b):
			return 0
		case first(a):
			return -1
		}
		return 1
	})
}

// watch has a lifeline to a session. It reports false if there are enough.
func (s *store) watch(ctx context.Context, p peer) (more bool) {
	w := &s.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lifelines[p.sid] != nil {
		return true
	}
	if len(w.lifelines) >= maxWatched {
		return false
	}
	l, refused := s.file.folder.Lifeline(p.id)
	if l == nil {
		if refused {
			w.tasks.Go(func() { s.suspect(ctx, p) })
		}
		return true
	}
	w.lifelines[p.sid] = l
	w.tasks.Go(func() {
		l.Wait()
		w.mu.Lock()
		delete(w.lifelines, p.sid)
		w.mu.Unlock()
		_ = l.Close()
		s.suspect(ctx, p)
	})
	return true
}

// suspect looks whether a session is dead whose socket has no owner any more. Its lock may take a
// moment longer to go, and while another client sees to it, this one waits in case that one dies as
// well. The process may have died between a commit and its message: so the client looks.
func (s *store) suspect(ctx context.Context, p peer) {
	for pause := time.Millisecond; pause < time.Second && ctx.Err() == nil; pause *= 2 {
		if swept, missing := s.probe(ctx, p); swept || missing {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
	if ctx.Err() == nil {
		s.hear(exchange.Event{Type: exchange.Wake})
	}
}

// probe ends a session whose owner is dead.
func (s *store) probe(ctx context.Context, p peer) (swept, missing bool) {
	lock, missing := s.file.folder.Dead(p.id)
	if lock == nil {
		return false, missing
	}
	defer lock.Close()
	err := s.change(ctx, keep, func(t *tx) error {
		return t.exec("UPDATE session SET expires = 0 WHERE sid = ?", p.sid)
	})
	if err == nil {
		err = s.sweep(ctx)
	}
	return err == nil, false
}

// refused is called for a session whose client does not receive messages any more.
func (s *store) refused(to address) {
	if to.Session == "" || !s.suspects.Begin(to.Session) {
		return
	}
	s.background(func(ctx context.Context) {
		defer s.suspects.End(to.Session)
		sid := int64(0)
		err := s.view(ctx, func(c conn, _ moment) error {
			_, err := c.one("SELECT sid FROM session WHERE id = ?", func(r *sqlite.Stmt) { sid = r.ColumnInt64(0) }, to.Session)
			return err
		})
		if err == nil && sid != 0 {
			s.suspect(ctx, peer{sid, to.Session})
		}
	})
}

// reap ends the dead sessions among the first holders of a queue, and reports whether there were
// any.
func (s *store) reap(ctx context.Context, queue string) (found bool) {
	var holders []peer
	err := s.view(ctx, func(c conn, _ moment) (err error) {
		holders, err = c.peers(`SELECT s.sid, s.id FROM queue q JOIN session s ON s.sid = q.sid WHERE q.name = ?1 AND q.id IS NOT NULL
			UNION SELECT s.sid, s.id FROM (SELECT t.sid FROM queue q JOIN ticket t ON t.queue = q.name AND t.n <= q.granted WHERE q.name = ?1 ORDER BY t.n LIMIT 16) h JOIN session s ON s.sid = h.sid`, queue)
		return err
	})
	if err != nil {
		return false
	}
	for _, p := range holders {
		if s.session(p.id) == nil {
			if swept, _ := s.probe(ctx, p); swept {
				found = true
			}
		}
	}
	return found
}
