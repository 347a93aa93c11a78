package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/fileclock"
	"github.com/interlock-go/interlock/internal/folder"
	"github.com/interlock-go/interlock/internal/trust"
)

// Check is called for interlock doctor, and for programs that ask whether their backend is fit. It takes as long as
// reading all of the file once.
func (s *store) Check(ctx context.Context) []driver.Finding {
	return doctor.Examine(ctx, []doctor.Check{
		{"file", "it is the one that was opened", s.checkFile},
		{"folder", "only those who share the file can replace it", s.checkPlace},
		{"file system", "all who see the file see its locks", func(context.Context) driver.Finding { return doctor.Filesystem(filepath.Dir(s.file.path)) }},
		{"sharing", "all who can read the file can use it", s.checkSharing},
		{"integrity", "the file is sound, and so are the queues in it", s.checkIntegrity},
		{"exchanges", "locks and values can be used", s.checkExchanges},
		{"clock", "no step of the wall clock moves it", s.checkClock},
		{"messages", "waiters are woken", s.checkMessages},
		{"sessions", "the death of each is noticed at once", s.checkSessions},
	})
}

func (s *store) checkFile(ctx context.Context) driver.Finding {
	const stop = "stop all programs that use the file, then start them again"
	if err := s.view(ctx, func(conn, time.Time) error { return s.file.same() }); err != nil {
		return doctor.Fail(doctor.Exclusion, stop, "%v", err)
	}
	st, err := os.Stat(s.file.path)
	if err != nil {
		return doctor.Fail(doctor.Exclusion, stop, "%v", err)
	}
	if n := trust.HardLinks(st); n > 1 {
		return doctor.Fail(doctor.Exclusion, "remove all names but one", "%s has %d names (hard links)", s.file.path, n)
	}
	return doctor.Sound
}

// checkPlace looks who can replace the file, or a folder that it is in.
func (s *store) checkPlace(context.Context) driver.Finding {
	at, beside := filepath.Dir(s.file.path), s.file.folder
	st, err := os.Lstat(at)
	if err == nil {
		err = trust.Place(at, st, s.file.mode)
	}
	if err == nil {
		if st, err = beside.Root.Stat("."); err == nil {
			err = trust.Folder(beside.Path, st, beside.Mode)
		}
	}
	for up := filepath.Dir(at); err == nil && runtime.GOOS != "windows"; up = filepath.Dir(up) {
		var who string
		if st, err = os.Lstat(up); err != nil {
			break
		}
		if st.Mode()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
			who = "every user"
		} else if !trust.Ours(st) && s.file.mode&0o022 == 0 {
			who = trust.Whose(st)
		}
		if who != "" {
			return doctor.Warn(doctor.Exclusion+", if that is done", "move the file to where only root and those who use it can write", "%s can write %s, and so replace a folder in which the file is", who, up)
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	if err != nil {
		return doctor.Fail(doctor.Exclusion, "see the detail", "%v", err)
	}
	return doctor.Sound
}

// checkSharing looks whether all who may write the file can write what is made beside it.
func (s *store) checkSharing(context.Context) driver.Finding {
	mode, dir := s.file.mode, filepath.Dir(s.file.path)
	if mode&0o066 != folder.ModeOf(mode)&0o066 {
		return doctor.Warn(doctor.EveryLock, fmt.Sprintf("chmod %o %s", folder.ModeOf(mode), s.file.path), "mode %04o lets users read the file who may not write it: these cannot lock, but they can keep the file locked", mode)
	}
	if st, err := os.Stat(dir); err == nil && mode&0o060 != 0 && st.Mode()&os.ModeSetgid == 0 {
		return doctor.Warn("sharing: another user may be refused", "chmod g+ws "+dir, "mode %04o shares the file with its group, but new files in %s get the group of whoever makes them", mode, dir)
	}
	return doctor.Sound
}

// invariants return a line for each thing that is wrong.
var invariants = []string{
	"PRAGMA quick_check(5)",
	`SELECT 'the journal mode was changed to ' || journal_mode FROM pragma_journal_mode WHERE journal_mode <> 'wal'`,
	`SELECT 'a queue has a name that nobody can have given' FROM queue WHERE NOT (` + named + `) LIMIT 1`,
	`SELECT 'queue ' || queue || ' has tickets, but no row' FROM ticket WHERE octet_length(queue) <= 528 AND queue NOT IN (SELECT name FROM queue) LIMIT 5`,
	`SELECT 'a value has a name that nobody can have given' FROM cell WHERE NOT (` + named + `) LIMIT 1`,
}

func (s *store) checkIntegrity(ctx context.Context) driver.Finding {
	var wrong []string
	err := s.view(ctx, func(c conn, _ time.Time) error {
		wrong = nil
		for _, sql := range invariants {
			if err := c.all(sql, func(s *sqlite.Stmt) bool {
				if line := s.ColumnText(0); line != "ok" {
					wrong = append(wrong, line)
				}
				return true
			}); err != nil {
				return err
			}
		}
		behind := map[string]int{}
		if err := c.all("SELECT queue, count(*) FROM ticket WHERE octet_length(queue) <= 528 GROUP BY queue", func(r *sqlite.Stmt) bool {
			behind[r.ColumnText(0)] = r.ColumnInt(1)
			return true
		}); err != nil {
			return err
		}
		return c.eachQueue(func(name string, q *queue, err error) {
			if err == nil && q.Behind != behind[name] {
				wrong = append(wrong, fmt.Sprintf("queue %s has %d tickets behind, not %d", name, behind[name], q.Behind))
			}
			if err != nil {
				wrong = append(wrong, err.Error())
			} else if line := q.wrong(); line != "" {
				wrong = append(wrong, "queue "+name+" "+line)
			}
		})
	})
	if err == nil && len(wrong) > 0 {
		err = errors.New(strings.Join(wrong[:min(len(wrong), 10)], "; "))
	}
	if err != nil {
		return doctor.Fail(doctor.Exclusion, "stop all who use the file, move it away and start again; locks need no backup", "%v", err)
	}
	return doctor.Sound
}

// eachQueue reads all rows as they are.
func (c conn) eachQueue(f func(name string, q *queue, err error)) error {
	return c.all("SELECT rowid, "+data+", name FROM queue WHERE "+named, func(r *sqlite.Stmt) bool {
		q, name := &queue{}, r.ColumnText(2)
		f(name, q, q.scan(r, name))
		return true
	})
}

// wrong says in what a queue is wrong in itself. More permits may be held than there are since their number was set.
func (q *queue) wrong() string {
	units, waits := int64(0), false
	for _, t := range q.Tickets {
		if units += t.Units; t.Held && (waits || units > q.Capacity && q.Kind != driver.Semaphore) {
			return "has a holder that does not fit"
		}
		waits = waits || !t.Held
	}
	return ""
}

func (s *store) checkExchanges(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := doctor.Try(ctx, s, s.mailbox.Name, "doctor/"+exchange.NewID()+"/value")
	return doctor.Exchanges(err, func(error) string { return "see the error: it names who keeps the file locked, if that is the reason" })
}

func (s *store) checkClock(context.Context) driver.Finding {
	if !fileclock.Steady {
		return doctor.Warn("exclusion, while the clock is set forward by more than a lease's margin", "let the clock be slewed, not stepped", "leases are counted by %s", s.clock)
	}
	return doctor.Sound
}

func (s *store) checkMessages(context.Context) driver.Finding {
	err := errors.New("this driver has no socket to be woken by")
	if s.mailbox.Name != "" {
		err = s.mailbox.Test(nil)
	}
	if err != nil {
		return doctor.Warn(fmt.Sprintf("waiters are woken: they look at the file every %v", pollEvery), "make sure that sockets can be made in "+s.file.folder.Path, "%v", err)
	}
	return doctor.Sound
}

func (s *store) checkSessions(ctx context.Context) driver.Finding {
	all, missing := map[string]bool{}, 0
	err := s.view(ctx, func(c conn, _ time.Time) error {
		return c.eachQueue(func(_ string, q *queue, err error) {
			for _, t := range q.Tickets {
				all[t.Session.ID] = err == nil && !t.Fixed
			}
		})
	})
	if err != nil {
		return driver.Finding{} // see the exchanges
	}
	for id, stands := range all {
		lock, gone := s.file.folder.Dead(id)
		if lock != nil {
			lock.Close()
		}
		if gone && stands {
			missing++
		}
	}
	if missing > 0 {
		return doctor.Warn("the death of these is noticed at once: it is by their TTL", "keep programs that clean up away from the folder", "the files of %d of %d in %s were removed", missing, len(all), s.file.folder.Path)
	}
	return doctor.Sound
}
