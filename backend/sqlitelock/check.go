package sqlitelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock/internal/folder"
	"github.com/interlock-go/interlock/backend/sqlitelock/internal/trust"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"zombiezen.com/go/sqlite"
)

// Check looks at the file, which takes as long as reading all of it once.
func (s *store) Check(ctx context.Context) []driver.Finding {
	var all []driver.Finding
	for _, c := range []struct {
		name  string
		check func(*store, context.Context) driver.Finding
	}{
		{"file", (*store).checkFile},
		{"folder", func(s *store, _ context.Context) driver.Finding { return s.checkPlace() }},
		{"file system", (*store).checkFilesystem},
		{"sharing", (*store).checkSharing},
		{"disk space", (*store).checkSpace},
		{"journal", (*store).checkJournal},
		{"integrity", (*store).checkIntegrity},
		{"writing", (*store).checkWriting},
		{"clock", (*store).checkClock},
		{"messages", (*store).checkMessages},
		{"sessions", (*store).checkSessions},
	} {
		f := c.check(s, ctx)
		f.Check = c.name
		all = append(all, f)
	}
	return all
}

const (
	everyLock = "every lock: without the file none can be acquired or renewed"
	exclusion = "exclusion: two could hold one lock"
)

func fine(format string, args ...any) driver.Finding {
	return driver.Finding{Status: driver.OK, Detail: fmt.Sprintf(format, args...)}
}

func failed(err error, promise, remedy string) driver.Finding {
	return driver.Finding{Status: driver.Fail, Detail: err.Error(), Promise: promise, Remedy: remedy}
}

func (s *store) checkFile(context.Context) driver.Finding {
	if err := s.file.same(); err != nil {
		return failed(err, exclusion, "stop all programs that use the file, then start them again")
	}
	if err := trust.Writable(s.file.path); err != nil {
		return failed(err, everyLock, "give this user the right to write "+s.file.path)
	}
	st, err := os.Stat(s.file.path)
	if err != nil {
		return failed(err, everyLock, "look at the permissions of the folder")
	}
	if n := trust.HardLinks(st); n > 1 {
		return failed(fmt.Errorf("%s has %d names (hard links)", s.file.path, n), exclusion, "remove all names but one")
	}
	return fine("%s, %d bytes, mode %04o", s.file.path, st.Size(), st.Mode().Perm())
}

func (s *store) checkFilesystem(context.Context) driver.Finding {
	kind, err := trust.Filesystem(filepath.Dir(s.file.path))
	switch {
	case err != nil:
		return failed(err, everyLock, "look at the permissions of the folder")
	case kind.Network:
		return failed(fmt.Errorf("%s is a network file system", kind.Name), exclusion, "use a local disk, or a server backend")
	case kind.Unknown:
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  kind.Name + ", which may be local or not",
			Promise: exclusion + ", if other machines see this file",
			Remedy:  "make sure that the file is on a disk of this machine",
		}
	}
	return fine("%s", kind.Name)
}

// checkSharing looks whether all who may write the file can write what is made
// beside it.
func (s *store) checkSharing(context.Context) driver.Finding {
	if mode := s.file.mode; mode&0o066 != folder.ModeOf(mode)&0o066 {
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  fmt.Sprintf("mode %04o lets users read the file who may not write it: these cannot lock, but they can keep the file locked", mode),
			Promise: everyLock,
			Remedy:  fmt.Sprintf("chmod %o %s", folder.ModeOf(mode), s.file.path),
		}
	}
	if s.file.mode&0o060 == 0 {
		return fine("for one user only")
	}
	dir := filepath.Dir(s.file.path)
	st, err := os.Stat(dir)
	if err != nil {
		return failed(err, everyLock, "look at the permissions of the folder")
	}
	if st.Mode()&os.ModeSetgid == 0 {
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  fmt.Sprintf("mode %04o shares the file with its group, but new files in %s get the group of whoever makes them", s.file.mode, dir),
			Promise: "sharing: another user may be refused",
			Remedy:  "chmod g+ws " + dir,
		}
	}
	return fine("with the group of %s", dir)
}

func (s *store) checkSpace(context.Context) driver.Finding {
	const low, needed = 64 << 20, 8 << 20
	free, err := trust.Space(filepath.Dir(s.file.path))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return fine("not known on this system")
	case err != nil:
		return failed(err, everyLock, "look at the permissions of the folder")
	}
	f := fine("%d MiB free", free>>20)
	if free < low {
		f.Status, f.Promise, f.Remedy = driver.Warn, "every lock: with a full disk none can be acquired or renewed", "free some space, or move the file"
	}
	if free < needed {
		f.Status = driver.Fail
	}
	return f
}

func (s *store) checkJournal(ctx context.Context) driver.Finding {
	mode, version := "", ""
	err := s.view(ctx, func(c conn, _ moment) error {
		if _, err := c.one("PRAGMA journal_mode", func(s *sqlite.Stmt) { mode = s.ColumnText(0) }); err != nil {
			return err
		}
		_, err := c.one("SELECT sqlite_version()", func(s *sqlite.Stmt) { version = s.ColumnText(0) })
		return err
	})
	switch {
	case err != nil:
		return failed(err, everyLock, "see the error")
	case mode != "wal":
		return driver.Finding{
			Status:  driver.Fail,
			Detail:  "the journal mode was changed to " + mode,
			Promise: "speed, and that reading waits for nobody",
			Remedy:  "stop all who use the file, then run: sqlite3 " + s.file.path + " 'PRAGMA journal_mode = WAL'",
		}
	}
	return fine("write-ahead log, SQLite %s; grants are committed without, cells with synchronisation", version)
}

func (s *store) checkIntegrity(ctx context.Context) driver.Finding {
	var wrong []string
	err := s.view(ctx, func(c conn, _ moment) error {
		wrong = wrong[:0]
		for _, sql := range append([]string{"PRAGMA quick_check(5)"}, invariants...) {
			if err := c.all(sql, func(s *sqlite.Stmt) bool {
				if text := s.ColumnText(0); text != "ok" {
					wrong = append(wrong, text)
				}
				return true
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(wrong) > 0 {
		err = errors.New(strings.Join(wrong, "; "))
	}
	if err != nil {
		return failed(err, exclusion, "stop all who use the file, move it away and start again; locks need no backup")
	}
	return fine("the file is sound, and so are the queues in it")
}

// invariants return a line for each queue that is wrong in itself, and for each
// ticket that nobody would ever take out.
var invariants = []string{
	`SELECT 'a queue has a name that nobody can have given' FROM queue WHERE NOT (` + named + `) LIMIT 1`,
	`SELECT 'a value has a name that nobody can have given' FROM cell WHERE NOT (` + named + `) LIMIT 1`,
	`SELECT 'queue ' || name || ' is miscounted' FROM queue q WHERE ` + named + ` AND (used > capacity
	OR tickets <> (SELECT count(*) FROM ticket t WHERE t.queue = q.name) + (id IS NOT NULL)
	OR waiting <> (SELECT count(*) FROM ticket t WHERE t.queue = q.name AND t.n > q.granted)
	OR used <> (SELECT coalesce(sum(t.units), 0) FROM ticket t WHERE t.queue = q.name AND t.n <= q.granted) + iif(id IS NULL, 0, units))
	LIMIT 5`,
	`SELECT 'ticket ' || ` + readID + ` || ' has no queue' FROM ticket WHERE queue NOT IN (SELECT name FROM queue) LIMIT 5`,
	`SELECT 'ticket ' || ` + readID + ` || ' has no session' FROM ticket WHERE flags & 1 = 0 AND sid NOT IN (SELECT sid FROM session) LIMIT 5`,
	`SELECT 'ticket ' || ` + readID + ` || ' has no session' FROM queue WHERE id IS NOT NULL AND sid NOT IN (SELECT sid FROM session) LIMIT 5`,
}

func (s *store) checkWriting(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	start := time.Now()
	if err := s.change(ctx, fast, func(t *tx) error { return t.exec("UPDATE file SET opened = opened") }); err != nil {
		return failed(err, everyLock, "see the error: it names who keeps the file locked, if that is the reason")
	}
	return fine("one transaction took %v", time.Since(start).Round(time.Microsecond))
}

func (s *store) checkClock(context.Context) driver.Finding {
	if !steady {
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  "leases are counted by " + s.clock.String(),
			Promise: "exclusion, while the clock is set forward by more than a lease's margin",
			Remedy:  "let the clock be slewed, not stepped",
		}
	}
	return fine("leases are counted by %s, which no step of the wall clock moves", s.clock)
}

// checkMessages sends one to itself.
func (s *store) checkMessages(ctx context.Context) driver.Finding {
	slow := driver.Finding{
		Status:  driver.Warn,
		Promise: fmt.Sprintf("speed: waiters look at the file every %v instead of being woken", pollEvery),
		Remedy:  "make sure that sockets can be made in " + s.file.folder.Path,
	}
	if s.mailbox.Name == "" {
		slow.Detail = "this driver has no socket to be woken by"
		return slow
	}
	start := time.Now()
	name, arrived := "check/"+exchange.NewID(), make(chan struct{})
	s.tests.Store(name, arrived)
	defer s.tests.Delete(name)
	data, err := json.Marshal(message{Cell: name})
	if err == nil {
		err = s.mailbox.Test(data)
	}
	if err != nil {
		slow.Detail = err.Error()
		return slow
	}
	select {
	case <-arrived:
		return fine("one took %v", time.Since(start).Round(time.Microsecond))
	case <-ctx.Done():
		slow.Detail = ctx.Err().Error()
	case <-time.After(5 * time.Second):
		slow.Detail = "one did not arrive within 5 s"
	}
	return slow
}

func (s *store) checkSessions(ctx context.Context) driver.Finding {
	var all []peer
	err := s.view(ctx, func(c conn, _ moment) (err error) {
		all, err = c.peers("SELECT sid, id FROM session")
		return err
	})
	if err != nil {
		return failed(err, everyLock, "see the error")
	}
	dead, missing := 0, 0
	for _, p := range all {
		lock, gone := s.file.folder.Dead(p.id)
		if lock != nil {
			lock.Close()
			dead++
		}
		if gone {
			missing++
		}
	}
	f := fine("%d, of them %d of dead processes, whose locks go to the next who asks", len(all), dead)
	if missing > 0 {
		f.Status = driver.Warn
		f.Detail = fmt.Sprintf("%d, of them %d whose files in %s were removed", len(all), missing, s.file.folder.Path)
		f.Promise = "speed: the death of these is only noticed by their TTL"
		f.Remedy = "keep programs that clean up away from the folder"
	}
	return f
}
