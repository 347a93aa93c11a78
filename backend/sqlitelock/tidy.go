package sqlitelock

import (
	"context"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// tidying is what is removed now and then, and how far it has come.
type tidying struct {
	sync.Mutex
	at    time.Time // when it was last done
	after string    // the queue that the last round ended with
}

const tidyEvery = 10 * time.Minute

// Tidy removes queues, files and watchers that are of no use. Expired tickets are swept by heartbeats.
func (s *store) Tidy(ctx context.Context) (queues []string, err error) {
	s.tidying.Lock()
	defer s.tidying.Unlock()
	if time.Since(s.tidying.at) >= tidyEvery {
		s.tidying.at = time.Now()
		s.forgetQueues(ctx)
		s.clearFolder(ctx)
		s.forgetWatchers(ctx)
	}
	return nil, nil
}

// forgetQueues removes queues that were empty for an hour. Their numbers stay used: the floor is
// raised over them.
func (s *store) forgetQueues(ctx context.Context) {
	var idle []string
	err := s.view(ctx, func(c conn, now moment) error {
		idle = idle[:0]
		rows := 0
		return c.all("SELECT name, tickets = 0 AND unclean = 0 AND watched = 0 AND kind <> '"+resizedKind+"' AND since < ? FROM queue WHERE name > ? AND "+named+" ORDER BY name", func(r *sqlite.Stmt) bool {
			s.tidying.after = r.ColumnText(0)
			if r.ColumnBool(1) {
				idle = append(idle, s.tidying.after)
			}
			rows++
			return rows < 10_000 && len(idle) < 10*batch
		}, now.add(-time.Hour), s.tidying.after)
	})
	if err != nil {
		return
	}
	if len(idle) == 0 {
		s.tidying.after = ""
	}
	for len(idle) > 0 {
		some := idle[:min(len(idle), batch)]
		idle = idle[len(some):]
		err := s.change(ctx, fast, func(t *tx) error {
			for _, name := range some {
				q, err := t.queue(name)
				if err != nil {
					return err
				}
				if q.made || q.unknown || q.resized || q.tickets > 0 || q.unclean || q.watched || q.since >= t.now.add(-time.Hour) {
					continue
				}
				if err := t.exec("UPDATE file SET floor = max(floor, ?)", q.last); err != nil {
					return err
				}
				if err := t.exec("DELETE FROM queue WHERE name = ?", name); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return
		}
	}
}

// clearFolder removes files of sessions and clients that have died unnoticed.
func (s *store) clearFolder(ctx context.Context) {
	used := map[string]bool{}
	if s.view(ctx, func(c conn, _ moment) error {
		return c.all("SELECT id, post FROM session", func(r *sqlite.Stmt) bool {
			used[r.ColumnText(0)], used[r.ColumnText(1)] = true, true
			return true
		})
	}) != nil {
		return
	}
	s.file.folder.Clear(used, s.mailbox, tidyEvery)
}

// forgetWatchers removes clients that are gone from those that are notified of the next change: a
// name that is never changed again would keep them for ever.
func (s *store) forgetWatchers(ctx context.Context) {
	var gone []string
	err := s.view(ctx, func(c conn, _ moment) error {
		gone = gone[:0]
		return c.all("SELECT DISTINCT post FROM watch", func(r *sqlite.Stmt) bool {
			if post := r.ColumnText(0); !s.file.folder.Has(post) {
				gone = append(gone, post)
			}
			return len(gone) < batch
		})
	})
	for _, post := range gone {
		if err == nil {
			err = s.change(ctx, fast, func(t *tx) error { return t.forgetWatcher(post) })
		}
	}
}

// forgetWatcher removes one. A queue that nobody else watches may be forgotten again.
func (t *tx) forgetWatcher(post string) error {
	const alone = `UPDATE queue SET watched = 0 WHERE name IN (SELECT name FROM watch WHERE what = 'queue' AND post = ?1)
		AND NOT EXISTS (SELECT 1 FROM watch w WHERE w.what = 'queue' AND w.name = queue.name AND w.post <> ?1)`
	if err := t.exec(alone, post); err != nil {
		return err
	}
	return t.exec("DELETE FROM watch WHERE post = ?", post)
}
