// Package doctor examines a file of locks for whoever asks whether it is fit.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/folder"
	"github.com/interlock-go/interlock/internal/trust"
)

// Client is what the doctor is told of who uses the file.
type Client struct {
	Path   string
	Mode   fs.FileMode   // of the file
	Folder folder.Folder // beside it
	Named  string        // SQL that is true of a row whose name a client can have given
	ReadID string        // SQL of the ID of a row

	Same     func() error                                          // the file at Path is still the one that was opened
	View     func(context.Context, func(*sqlite.Conn) error) error // reads one state of the file
	Write    func(context.Context) error                           // makes a transaction that changes nothing
	Sessions func(context.Context) (ids []string, err error)       // those that the file has

	Clock     fmt.Stringer  // by which leases are counted
	Steady    bool          // no step of the wall clock moves it
	LookEvery time.Duration // how often clients without a socket look at the file
	Socket    bool          // the client has one
	// Message sends one to the client itself, and returns what is closed when it is there.
	Message func() (arrived <-chan struct{}, end func(), err error)
}

// Doctor looks at the file, which takes as long as reading all of it once.
type Doctor struct{ Client }

// New is for a client that is open.
func New(c Client) *Doctor { return &Doctor{c} }

// Check is called once.
func (d *Doctor) Check(ctx context.Context) []driver.Finding {
	return doctor.Examine(ctx, []doctor.Check{
		{"file", "", d.checkFile}, {"folder", "", d.checkPlace}, {"file system", "", d.checkFilesystem}, {"sharing", "", d.checkSharing}, {"disk space", "", d.checkSpace},
		{"journal", "", d.checkJournal}, {"integrity", "", d.checkIntegrity}, {"writing", "", d.checkWriting},
		{"clock", "", d.checkClock}, {"messages", "", d.checkMessages}, {"sessions", "", d.checkSessions},
	})
}

const (
	everyLock = "every lock: without the file none can be acquired or renewed"
	exclusion = "exclusion: two could hold one lock"
)

func failed(err error, promise, remedy string) driver.Finding {
	return driver.Finding{Status: driver.Fail, Detail: err.Error(), Promise: promise, Remedy: remedy}
}

func (d *Doctor) checkFile(context.Context) driver.Finding {
	if err := d.Same(); err != nil {
		return failed(err, exclusion, "stop all programs that use the file, then start them again")
	}
	if err := trust.Writable(d.Path); err != nil {
		return failed(err, everyLock, "give this user the right to write "+d.Path)
	}
	st, err := os.Stat(d.Path)
	if err != nil {
		return failed(err, everyLock, "look at the permissions of the folder")
	}
	if n := trust.HardLinks(st); n > 1 {
		return failed(fmt.Errorf("%s has %d names (hard links)", d.Path, n), exclusion, "remove all names but one")
	}
	return doctor.Fine("%s, %d bytes, mode %04o", d.Path, st.Size(), st.Mode().Perm())
}

func (d *Doctor) checkFilesystem(context.Context) driver.Finding {
	return doctor.Filesystem(filepath.Dir(d.Path))
}

// checkSharing looks whether all who may write the file can write what is made
// beside it.
func (d *Doctor) checkSharing(context.Context) driver.Finding {
	if mode := d.Mode; mode&0o066 != folder.ModeOf(mode)&0o066 {
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  fmt.Sprintf("mode %04o lets users read the file who may not write it: these cannot lock, but they can keep the file locked", mode),
			Promise: everyLock,
			Remedy:  fmt.Sprintf("chmod %o %s", folder.ModeOf(mode), d.Path),
		}
	}
	if d.Mode&0o060 == 0 {
		return doctor.Fine("for one user only")
	}
	dir := filepath.Dir(d.Path)
	st, err := os.Stat(dir)
	if err != nil {
		return failed(err, everyLock, "look at the permissions of the folder")
	}
	if st.Mode()&os.ModeSetgid == 0 {
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  fmt.Sprintf("mode %04o shares the file with its group, but new files in %s get the group of whoever makes them", d.Mode, dir),
			Promise: "sharing: another user may be refused",
			Remedy:  "chmod g+ws " + dir,
		}
	}
	return doctor.Fine("with the group of %s", dir)
}

func (d *Doctor) checkSpace(context.Context) driver.Finding {
	const low, needed = 64 << 20, 8 << 20
	free, err := trust.Space(filepath.Dir(d.Path))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return doctor.Fine("not known on this system")
	case err != nil:
		return failed(err, everyLock, "look at the permissions of the folder")
	}
	f := doctor.Fine("%d MiB free", free>>20)
	if free < low {
		f.Status, f.Promise, f.Remedy = driver.Warn, "every lock: with a full disk none can be acquired or renewed", "free some space, or move the file"
	}
	if free < needed {
		f.Status = driver.Fail
	}
	return f
}

func (d *Doctor) checkJournal(ctx context.Context) driver.Finding {
	var mode, version []string
	err := d.View(ctx, func(c *sqlite.Conn) (err error) {
		if mode, err = texts(c, "PRAGMA journal_mode"); err == nil {
			version, err = texts(c, "SELECT sqlite_version()")
		}
		return err
	})
	switch {
	case err != nil:
		return failed(err, everyLock, "see the error")
	case !slices.Equal(mode, []string{"wal"}):
		return driver.Finding{
			Status:  driver.Fail,
			Detail:  "the journal mode was changed to " + strings.Join(mode, ""),
			Promise: "speed, and that reading waits for nobody",
			Remedy:  "stop all who use the file, then run: sqlite3 " + d.Path + " 'PRAGMA journal_mode = WAL'",
		}
	}
	return doctor.Fine("write-ahead log, SQLite %s; grants are committed without, cells with synchronisation", strings.Join(version, ""))
}

func (d *Doctor) checkIntegrity(ctx context.Context) driver.Finding {
	var wrong []string
	err := d.View(ctx, func(c *sqlite.Conn) error {
		wrong = nil
		for _, sql := range append([]string{"PRAGMA quick_check(5)"}, d.invariants()...) {
			all, err := texts(c, sql)
			if err != nil {
				return err
			}
			wrong = append(wrong, slices.DeleteFunc(all, func(line string) bool { return line == "ok" })...)
		}
		return nil
	})
	if err == nil && len(wrong) > 0 {
		err = errors.New(strings.Join(wrong, "; "))
	}
	if err != nil {
		return failed(err, exclusion, "stop all who use the file, move it away and start again; locks need no backup")
	}
	return doctor.Fine("the file is sound, and so are the queues in it")
}

// invariants return a line for each queue that is wrong in itself, and for each
// ticket that nobody would ever take out. More permits may be held than there are since their number was set.
func (d *Doctor) invariants() []string {
	return []string{
		`SELECT 'a queue has a name that nobody can have given' FROM queue WHERE NOT (` + d.Named + `) LIMIT 1`,
		`SELECT 'a value has a name that nobody can have given' FROM cell WHERE NOT (` + d.Named + `) LIMIT 1`,
		`SELECT 'queue ' || name || ' is miscounted' FROM queue q WHERE ` + d.Named + ` AND (used > capacity AND kind NOT LIKE 'semaphore%'
	OR tickets <> (SELECT count(*) FROM ticket t WHERE t.queue = q.name) + (id IS NOT NULL)
	OR waiting <> (SELECT count(*) FROM ticket t WHERE t.queue = q.name AND t.n > q.granted)
	OR used <> (SELECT coalesce(sum(t.units), 0) FROM ticket t WHERE t.queue = q.name AND t.n <= q.granted) + iif(id IS NULL, 0, units))
	LIMIT 5`,
		`SELECT 'ticket ' || ` + d.ReadID + ` || ' has no queue' FROM ticket WHERE queue NOT IN (SELECT name FROM queue) LIMIT 5`,
		`SELECT 'ticket ' || ` + d.ReadID + ` || ' has no session' FROM ticket WHERE flags & 1 = 0 AND sid NOT IN (SELECT sid FROM session) LIMIT 5`,
		`SELECT 'ticket ' || ` + d.ReadID + ` || ' has no session' FROM queue WHERE id IS NOT NULL AND sid NOT IN (SELECT sid FROM session) LIMIT 5`,
	}
}

func (d *Doctor) checkWriting(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	start := time.Now()
	if err := d.Write(ctx); err != nil {
		return failed(err, everyLock, "see the error: it names who keeps the file locked, if that is the reason")
	}
	return doctor.Fine("one transaction took %v", time.Since(start).Round(time.Microsecond))
}

func (d *Doctor) checkClock(context.Context) driver.Finding {
	if !d.Steady {
		return driver.Finding{
			Status:  driver.Warn,
			Detail:  "leases are counted by " + d.Clock.String(),
			Promise: "exclusion, while the clock is set forward by more than a lease's margin",
			Remedy:  "let the clock be slewed, not stepped",
		}
	}
	return doctor.Fine("leases are counted by %s, which no step of the wall clock moves", d.Clock)
}

// checkMessages sends one to itself.
func (d *Doctor) checkMessages(ctx context.Context) driver.Finding {
	slow := driver.Finding{
		Status:  driver.Warn,
		Promise: fmt.Sprintf("speed: waiters look at the file every %v instead of being woken", d.LookEvery),
		Remedy:  "make sure that sockets can be made in " + d.Folder.Path,
	}
	if !d.Socket {
		slow.Detail = "this driver has no socket to be woken by"
		return slow
	}
	start := time.Now()
	arrived, end, err := d.Message()
	if err != nil {
		slow.Detail = err.Error()
		return slow
	}
	defer end()
	select {
	case <-arrived:
		return doctor.Fine("one took %v", time.Since(start).Round(time.Microsecond))
	case <-ctx.Done():
		slow.Detail = ctx.Err().Error()
	case <-time.After(5 * time.Second):
		slow.Detail = "one did not arrive within 5 s"
	}
	return slow
}

func (d *Doctor) checkSessions(ctx context.Context) driver.Finding {
	all, err := d.Sessions(ctx)
	if err != nil {
		return failed(err, everyLock, "see the error")
	}
	dead, missing := 0, 0
	for _, id := range all {
		lock, gone := d.Folder.Dead(id)
		if lock != nil {
			lock.Close()
			dead++
		}
		if gone {
			missing++
		}
	}
	f := doctor.Fine("%d, of them %d of dead processes, whose locks go to the next who asks", len(all), dead)
	if missing > 0 {
		f.Status = driver.Warn
		f.Detail = fmt.Sprintf("%d, of them %d whose files in %s were removed", len(all), missing, d.Folder.Path)
		f.Promise = "speed: the death of these is only noticed by their TTL"
		f.Remedy = "keep programs that clean up away from the folder"
	}
	return f
}

// texts reads one column.
func texts(c *sqlite.Conn, sql string) (all []string, err error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	found, err := s.Step()
	for ; found && err == nil; found, err = s.Step() {
		all = append(all, s.ColumnText(0))
	}
	if e := s.Reset(); err == nil {
		err = e
	}
	return all, err
}
