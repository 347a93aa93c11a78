package sqlitelock

import (
	"context"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// chores are done now and then by Renew.
type chores struct {
	mu    sync.Mutex
	tidy  time.Time // when they were last done
	after string    // the queue that the last round ended with
}

const (
	tidyEvery   = 10 * time.Minute
	probeAtOnce = 16
)

// upkeep does what nobody waits for: it looks whether sessions are dead of which
// nobody is told, a few at a time, and now and then removes what is left over.
func (d *Driver) upkeep(ctx context.Context) {
	d.post.repair()
	var some []peer
	err := d.view(ctx, func(c conn, _ moment) (err error) {
		some, err = c.peers("SELECT sid, id FROM session WHERE expires > 0 ORDER BY random() LIMIT ?", probeAtOnce)
		return err
	})
	if err != nil {
		return
	}
	for _, p := range some {
		if d.session(p.sid) == nil {
			d.probe(ctx, p)
		}
	}
	d.chores.mu.Lock()
	defer d.chores.mu.Unlock()
	if d.chores.tidy.IsZero() {
		d.chores.tidy = time.Now()
	}
	if time.Since(d.chores.tidy) >= tidyEvery {
		d.chores.tidy = time.Now()
		d.forgetQueues(ctx)
		d.clearFolder(ctx)
	}
}

// forgetQueues removes queues that were empty for an hour. Their numbers stay
// used: the floor is raised over them.
func (d *Driver) forgetQueues(ctx context.Context) {
	var idle []string
	err := d.view(ctx, func(c conn, now moment) error {
		idle = idle[:0]
		rows := 0
		return c.all("SELECT name, tickets = 0 AND unclean = 0 AND watched = 0 AND since < ? FROM queue WHERE name > ? AND "+named+" ORDER BY name", func(s *sqlite.Stmt) bool {
			d.chores.after = s.ColumnText(0)
			if s.ColumnBool(1) {
				idle = append(idle, d.chores.after)
			}
			rows++
			return rows < 10_000 && len(idle) < 10*batch
		}, now.add(-time.Hour), d.chores.after)
	})
	if err != nil {
		return
	}
	if len(idle) == 0 {
		d.chores.after = ""
	}
	for len(idle) > 0 {
		some := idle[:min(len(idle), batch)]
		idle = idle[len(some):]
		err := d.change(ctx, fast, func(t *tx) error {
			for _, name := range some {
				q, err := t.queue(name)
				if err != nil {
					return err
				}
				if q.made || q.unknown || q.tickets > 0 || q.unclean || q.watched || q.since >= t.now.add(-time.Hour) {
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

// clearFolder removes files of sessions and drivers that died without anybody
// noticing.
func (d *Driver) clearFolder(ctx context.Context) {
	sessions := map[string]bool{}
	posts := map[string]bool{}
	err := d.view(ctx, func(c conn, _ moment) error {
		return c.all("SELECT id, post FROM session", func(s *sqlite.Stmt) bool {
			sessions[s.ColumnText(0)] = true
			posts[s.ColumnText(1)] = true
			return true
		})
	})
	if err != nil {
		return
	}
	dir, err := d.file.folder.root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	files, err := dir.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range files {
		info, err := d.file.folder.root.Lstat(name)
		if err != nil || time.Since(info.ModTime()) < tidyEvery {
			continue
		}
		id, suffix, _ := strings.Cut(name, ".")
		switch {
		case suffix == "live" && !sessions[id]:
			if grave, _ := d.file.folder.dead(id); grave != nil {
				d.file.folder.bury(id)
				grave.Close()
			}
		case suffix == "post" && !posts[name] && d.post.deserted(name):
			d.file.folder.remove(name)
		}
	}
}
