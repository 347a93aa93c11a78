package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/folder"
	"github.com/interlock-go/interlock/internal/trust"
)

// Check is called for interlock doctor, and for programs that ask whether their backend is fit. It takes as long as
// reading all of the file once.
func (s *store) Check(ctx context.Context) []driver.Finding {
	dir := filepath.Dir(s.file.path)
	return doctor.Examine(ctx, nil, slices.Concat(doctor.Use(s, s.try, func(error) string { return "" })[:1], doctor.Files(dir, s.clock), []doctor.Check{
		{"folder", "only those who share the file can replace it", s.checkPlace},
		{"sharing", "all who can read the file can use it", s.checkSharing},
		{"integrity", "the file is sound, and so are the queues in it", s.checkIntegrity},
		{"messages", "waiters are woken", s.checkMessages},
	})...)
}

// try finds a file that is another one now, a disk that is full, and who keeps the file locked.
func (s *store) try(ctx context.Context, _ exchange.Store) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := doctor.TryAs(ctx, s, s.mailbox.Name, "")
	return err
}

// checkPlace looks who can replace the file, or a folder that it is in.
func (s *store) checkPlace(context.Context) driver.Finding {
	const promise, remedy = doctor.Exclusion + ", if that is done", "move the file to where only root and those who use it can write"
	at := filepath.Dir(s.file.path)
	st, err := os.Lstat(at)
	if err == nil {
		err = trust.Place(at, st, s.file.mode)
	}
	if err != nil {
		return doctor.Fail(promise, remedy, "%v", err)
	}
	for up := filepath.Dir(at); up != at && runtime.GOOS != "windows"; at, up = up, filepath.Dir(up) {
		switch st, err := os.Lstat(up); {
		case err != nil:
			return doctor.Unknown(promise, err)
		case st.Mode()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0:
			return doctor.Warn(promise, remedy, "every user can write %s, and so replace a folder in which the file is", up)
		case !trust.Ours(st) && !trust.Shared(s.file.mode):
			return doctor.Warn(promise, remedy, "%s can write %s, and so replace a folder in which the file is", trust.Whose(st), up)
		}
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
		return c.all("SELECT rowid, "+data+", name FROM queue WHERE "+named, func(r *sqlite.Stmt) bool {
			q, name := &queue{}, r.ColumnText(2)
			switch err := q.scan(r, name); {
			case err != nil:
				wrong = append(wrong, err.Error())
			case q.Behind != behind[name]:
				wrong = append(wrong, fmt.Sprintf("queue %s has %d tickets behind, not %d", name, behind[name], q.Behind))
			case !q.fits():
				wrong = append(wrong, "queue "+name+" has a holder that does not fit")
			}
			return true
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

// fits reports whether the holders are in front, and have what there is. More permits may be held than there are
// since their number was set.
func (q *queue) fits() bool {
	units, waits := int64(0), false
	for _, t := range q.Tickets {
		if units += t.Units; t.Held && (waits || units > q.Capacity && q.Kind != driver.Semaphore) {
			return false
		}
		waits = waits || !t.Held
	}
	return true
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
