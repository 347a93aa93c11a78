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
}

// maxWatched bounds how many sessions one client watches. Heartbeats find out about the others.
const maxWatched = 256

func (w *watcher) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lifelines {
		_ = l.Close()
	}
	w.lifelines = nil
}

// watch has lifelines to sessions.
func (s *store) watch(sessions []string) {
	for _, id := range sessions {
		w := &s.watcher
		w.mu.Lock()
		enough := w.lifelines == nil || w.lifelines[id] != nil || len(w.lifelines) >= maxWatched
		w.mu.Unlock()
		if enough || s.lives(id) {
			continue
		}
		l, refused := s.file.folder.Lifeline(id)
		if l == nil {
			if refused {
				s.background(func(ctx context.Context) { s.suspect(ctx, id) })
			}
			continue
		}
		w.mu.Lock()
		if enough = w.lifelines == nil || w.lifelines[id] != nil; !enough {
			w.lifelines[id] = l
		}
		w.mu.Unlock()
		if enough {
			_ = l.Close()
			continue
		}
		s.background(func(ctx context.Context) {
			l.Wait()
			w.mu.Lock()
			delete(w.lifelines, id)
			w.mu.Unlock()
			_ = l.Close()
			s.suspect(ctx, id)
		})
	}
}

// suspect has the client look at its waiters when a session is dead whose socket has no owner any more. Its lock may
// take a moment longer to go.
func (s *store) suspect(ctx context.Context, id string) {
	for pause := time.Millisecond; pause < time.Second && ctx.Err() == nil; pause *= 2 {
		lock, missing := s.file.folder.Dead(id)
		if lock != nil {
			lock.Close()
		}
		if lock != nil || missing {
			break
		}
		_ = backoff.Sleep(ctx, pause)
	}
	s.hear(exchange.Event{Type: exchange.Wake})
}
