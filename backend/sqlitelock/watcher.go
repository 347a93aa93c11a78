package sqlitelock

import (
	"context"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/folder"
)

// watcher notices the deaths of the sessions in front of this client's waiters. It has a lifeline to each. If that
// breaks, the process has most likely died, and the flock of the session decides.
type watcher struct {
	mu        sync.Mutex
	lifelines map[string]*folder.Lifeline // by session; nil: none any more
	suspected map[string]bool             // sessions that have no owner any more, and were looked at
}

// maxWatched bounds how many sessions one client watches. Heartbeats find out about the others.
const maxWatched = 256

// maxSuspected bounds how many sessions are remembered that have no owner any more.
const maxSuspected = 4096

func (w *watcher) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lifelines {
		_ = l.Close()
	}
	w.lifelines = nil
}

func (w *watcher) needs(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lifelines != nil && w.lifelines[id] == nil && len(w.lifelines) < maxWatched && !w.suspected[id]
}

// note remembers a lifeline or, with nil, that a session has no owner any more, and reports whether that is new.
func (w *watcher) note(id string, l *folder.Lifeline) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lifelines == nil || w.suspected[id] || l != nil && w.lifelines[id] != nil {
		return false
	}
	if l != nil {
		w.lifelines[id] = l
		return true
	}
	delete(w.lifelines, id)
	if len(w.suspected) >= maxSuspected {
		clear(w.suspected)
	}
	w.suspected[id] = true
	return true
}

// watch has lifelines to sessions. The end of each is a reason to look once: the dead may stay in front, a waiter until
// its turn, and a holder until a fixed end.
func (s *store) watch(sessions []string) {
	w := &s.watcher
	for _, id := range sessions {
		if !w.needs(id) || s.lives(id) {
			continue
		}
		l, refused := s.file.folder.Lifeline(id)
		if l == nil && !refused {
			continue
		}
		if !w.note(id, l) {
			if l != nil {
				_ = l.Close()
			}
			continue
		}
		s.background(func(ctx context.Context) {
			if l != nil {
				l.Wait()
				_ = l.Close()
				w.note(id, nil)
			}
			s.suspect(ctx, id)
		})
	}
}

// suspect has the client look at its waiters when a session is dead whose socket has no owner any more. Its lock may
// take a moment longer to go. If it does not go, the session may be suspected again.
func (s *store) suspect(ctx context.Context, id string) {
	over := false
	for pause := time.Millisecond; !over && pause < time.Second && ctx.Err() == nil; pause *= 2 {
		lock, missing := s.file.folder.Dead(id)
		if lock != nil {
			lock.Close()
		}
		if over = lock != nil || missing; !over {
			_ = backoff.Sleep(ctx, pause)
		}
	}
	if !over {
		s.watcher.mu.Lock()
		delete(s.watcher.suspected, id)
		s.watcher.mu.Unlock()
	}
	s.hear(exchange.Event{Type: exchange.Wake})
}
