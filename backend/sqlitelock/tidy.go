package sqlitelock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// tidying is what is removed now and then, and how far it has come.
type tidying struct {
	sync.Mutex
	at    time.Time       // when it was last done
	after string          // the queue that the last round ended with
	dead  map[string]bool // sessions that it has found dead
}

const (
	tidyEvery = 10 * time.Minute
	idleFor   = time.Hour // a queue that is removed
	batch     = 100       // rows that a transaction removes
)

// Tidy removes rows and files that are of no use, and clients that are gone from those that are told of the next
// change.
func (s *store) Tidy(ctx context.Context) (queues []string, err error) {
	s.tidying.Lock()
	defer s.tidying.Unlock()
	if time.Since(s.tidying.at) >= tidyEvery {
		s.tidying.at = time.Now()
		s.forgetQueues(ctx)
		s.forgetFollowers(ctx)
		s.tidying.dead = s.file.folder.Clear(s.tidying.dead, s.mailbox, tidyEvery)
	}
	return nil, nil
}

// forgetQueues removes the rows of queues that were empty for an hour, and what has expired in others. Tokens stay
// used: the floor is raised over them.
func (s *store) forgetQueues(ctx context.Context) {
	var names []string
	err := s.view(ctx, func(c conn, now time.Time) error {
		names = nil
		looked, last := 0, ""
		err := c.all("SELECT rowid, "+data+", name FROM queue WHERE name > ? AND "+named+" ORDER BY name", func(r *sqlite.Stmt) bool {
			q := &queue{}
			if last = r.ColumnText(2); q.scan(r, last) == nil {
				if q.settle(c, s, last, now, false); q.Changed || s.useless(q, now) || slices.ContainsFunc(q.Followers, s.gone) {
					names = append(names, last)
				}
			}
			looked++
			return looked < 10_000 && len(names) < 10*batch
		}, s.tidying.after)
		if s.tidying.after = last; looked < 10_000 && len(names) < 10*batch {
			s.tidying.after = ""
		}
		return err
	})
	for len(names) > 0 && err == nil {
		some := names[:min(len(names), batch)]
		names = names[len(some):]
		err = s.change(ctx, false, func(t *tx) error {
			for _, name := range some {
				if err := t.tidyQueue(name); err != nil && !errors.Is(err, errRow) {
					return err
				}
			}
			return nil
		})
	}
}

func (t *tx) tidyQueue(name string) error {
	q, err := t.reaped(name)
	if err != nil || q.row == 0 {
		return err
	}
	if n := len(q.Followers); n > 0 {
		q.Followers = slices.DeleteFunc(q.Followers, t.s.gone)
		q.Changed = q.Changed || len(q.Followers) < n
	}
	if q.Changed || !t.s.useless(q, t.now) {
		return nil
	}
	if err := t.exec("UPDATE file SET floor = max(floor, ?)", int64(q.Token)); err != nil {
		return err
	}
	return t.exec("DELETE FROM queue WHERE rowid = ?", q.row)
}

// useless: a missing row would say the same as this one, but for the last token.
func (s *store) useless(q *queue, now time.Time) bool {
	return !q.Says() && (q.boot != s.boot || now.Sub(q.Written) > idleFor)
}

// gone says of the mailbox of a follower that it is not there any more.
func (s *store) gone(mailbox string) bool { return !s.file.folder.HasMailbox(mailbox) }

// forgetFollowers is for cells: a name that is never changed again would keep them for ever.
func (s *store) forgetFollowers(ctx context.Context) {
	type row struct{ name, followers string }
	var all []row
	err := s.view(ctx, func(c conn, _ time.Time) error {
		all = nil
		return c.all("SELECT name, "+told+" FROM cell WHERE followers <> '' AND "+named, func(r *sqlite.Stmt) bool {
			followers := r.ColumnText(1)
			if slices.ContainsFunc(strings.Fields(followers), s.gone) {
				all = append(all, row{r.ColumnText(0), followers})
			}
			return len(all) < batch
		})
	})
	if err != nil || len(all) == 0 {
		return
	}
	_ = s.change(ctx, false, func(t *tx) (err error) {
		for _, r := range all {
			stay := slices.DeleteFunc(strings.Fields(r.followers), s.gone)
			if err == nil {
				err = t.exec("UPDATE cell SET followers = ? WHERE name = ? AND followers = ?", strings.Join(stay, " "), r.name, r.followers)
			}
		}
		return err
	})
}
