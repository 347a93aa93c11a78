package sqlitelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock/internal/blockers"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/flock"
	"github.com/interlock-go/interlock/internal/folder"
	"github.com/interlock-go/interlock/internal/trust"
	"zombiezen.com/go/sqlite"
)

// file is the database file with the folder beside it. The clients of a process share it.
type file struct {
	key     string   // in files
	users   int      // guarded by files
	clients sync.Map // stores by name of the mailbox

	path     string // absolute, without symbolic links
	mode     fs.FileMode
	id       trust.ID // of the file when it was opened
	turn     trust.ID // of the file of the write lock
	names    names
	guard    guard
	folder   folder.Folder
	lock     *writeLock
	write    conn               // used with the lock
	read     conn               // used while reading is full
	reading  chan struct{}      // full while a goroutine reads
	blockers *blockers.Blockers // from writing
	out      []byte             // room for what is written
}

// files are those that clients of this process have open, by path.
var files = struct {
	sync.Mutex
	all map[string]*file
}{all: map[string]*file{}}

// shareFile opens the file for a client, and looks at it as if it were the first one.
func shareFile(ctx context.Context, path string, c config) (*file, error) {
	f, empty, err := findFile(ctx, path, c)
	if err != nil {
		return nil, err
	}
	if shared := f.enter(nil); shared != nil {
		if err := shared.admit(ctx); err == nil {
			return shared, nil
		} else if shared.leave(); !errors.Is(err, errReplaced) {
			return nil, err
		}
	}
	if err := f.open(ctx, empty, c); err != nil {
		return nil, err
	}
	if shared := f.enter(f); shared != f { // another client was faster
		f.close()
		return shared, nil
	}
	return f, nil
}

// enter counts a client of the file that is open at the path, which is made when there is none.
func (f *file) enter(made *file) *file {
	files.Lock()
	defer files.Unlock()
	shared := files.all[f.key]
	if shared == nil || made != nil && shared.same() != nil {
		if shared = made; made == nil {
			return nil
		}
		files.all[f.key] = made
	}
	shared.users++
	return shared
}

// leave is called by each client at its end.
func (f *file) leave() {
	files.Lock()
	defer files.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	if files.all[f.key] == f {
		delete(files.all, f.key)
	}
	f.close()
}

// admit makes sure that the file and the folder beside it are still ours.
func (f *file) admit(ctx context.Context) error {
	f.reading <- struct{}{}
	defer func() { <-f.reading }()
	if err := f.same(); err != nil {
		return err
	}
	beside, err := folder.Open(f.folder.Path, f.mode, false)
	if err != nil {
		return driver.Permanent(err)
	}
	beside.Close()
	return f.retry(ctx, nil, func() error { return f.verify(f.read) })
}

// longest is what SQLite can use, less the ends of its log's name.
const longest = 500

// findFile looks at what there is at the path.
func findFile(ctx context.Context, path string, c config) (f *file, empty bool, err error) {
	path, err = resolve(path)
	if err != nil {
		return nil, false, driver.Permanent(err)
	}
	if len(path) > longest {
		return nil, false, driver.Permanent(fmt.Errorf("%s is too long for SQLite: at most %d bytes", path, longest))
	}
	f = &file{key: c.key(path), path: path, mode: c.mode, reading: make(chan struct{}, 1)}
	if empty, err = f.examine(ctx); err != nil {
		return nil, false, err
	}
	if st, err := os.Lstat(path); empty && err == nil {
		if err := f.notOurs(st); err != nil { // before anything is made beside it
			return nil, false, err
		}
	}
	return f, empty, nil
}

// open opens the file, and makes it if there is none.
func (f *file) open(ctx context.Context, empty bool, c config) (err error) {
	path := f.path
	if f.folder, err = folder.Open(path+"-interlock", f.mode, !c.noSockets); err != nil {
		return driver.Permanent(err)
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	t, err := f.folder.Create("turn")
	if err != nil {
		return driver.Permanent(err)
	}
	if f.turn, err = trust.IDOf(t); err != nil {
		return driver.Permanent(err)
	}
	f.blockers = blockers.Of(f.folder.File("turn"), path+"-shm") // the write lock, and SQLite's own
	f.lock = newWriteLock(t)
	if err := f.lock.take(ctx, nil); err != nil {
		return f.stuck(err)
	}
	defer f.lock.pass()
	if err := f.beside(); err != nil {
		return driver.Permanent(err)
	}
	if empty {
		if err := f.make(ctx); err != nil {
			return err
		}
	}
	if f.id, err = trust.Identify(path); err != nil {
		return driver.Permanent(err)
	}
	if err := f.retry(ctx, nil, func() error { return f.guard.enter(path) }); err != nil {
		return err
	}
	if f.write, err = f.connect(ctx); err != nil {
		return err
	}
	if err := f.guard.complete(path); err != nil {
		return err
	}
	if f.read, err = f.connect(ctx); err != nil {
		return err
	}
	for i, path := range []string{filepath.Dir(path), f.folder.Path} {
		if f.names.at[i], err = os.Open(path); err != nil {
			return driver.Permanent(err)
		}
	}
	if err := f.same(); err != nil {
		return err
	}
	return nil
}

// resolve finds the one name that all processes know the file by.
func resolve(path string) (string, error) {
	if path == "" || strings.HasSuffix(filepath.ToSlash(path), "/") {
		return "", driver.Invalid(errors.New("sqlite: no file is named; write sqlite:relative.db or sqlite:///absolute/locks.db"))
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := trust.RealPath(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s does not exist; make it first: %w", filepath.Dir(abs), err)
	}
	if err != nil {
		return "", err
	}
	abs = filepath.Join(dir, filepath.Base(abs))
	if _, err := os.Lstat(abs); errors.Is(err, fs.ErrNotExist) {
		return abs, nil
	}
	real, err := trust.RealPath(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is a symbolic link to nothing; make its target or remove it: %w", abs, err)
	}
	return real, err
}

// examine refuses what is not a file of ours, without changing it. It reports
// whether there is something to make.
func (f *file) examine(ctx context.Context) (empty bool, err error) {
	if err := trust.Local(filepath.Dir(f.path)); err != nil {
		return false, driver.Permanent(err)
	}
	place, err := os.Lstat(filepath.Dir(f.path))
	if err != nil {
		return false, driver.Permanent(err)
	}
	st, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, driver.Permanent(trust.Place(filepath.Dir(f.path), place, f.mode))
	case err != nil:
		return false, driver.Permanent(err)
	case st.IsDir():
		return false, driver.Permanent(fmt.Errorf("%s is a directory; name a file in it", f.path))
	case !st.Mode().IsRegular():
		return false, driver.Permanent(fmt.Errorf("%s is not an ordinary file", f.path))
	case trust.HardLinks(st) > 1:
		return false, driver.Permanent(fmt.Errorf("%s has another name (a hard link), and locks taken by one name would not be seen by the other; remove one", f.path))
	case trust.Mounted(f.path):
		return false, driver.Permanent(fmt.Errorf("%s is mounted by itself, and locks would not be seen where it comes from; mount its folder", f.path))
	}
	if err := trust.Writable(f.path); err != nil {
		return false, driver.Permanent(fmt.Errorf("%s cannot be written, which every lock needs: %w", f.path, err))
	}
	f.mode = st.Mode().Perm()
	if err := trust.Place(filepath.Dir(f.path), place, f.mode); err != nil {
		return false, driver.Permanent(err)
	}
	if err := trust.File(f.path, st); err != nil {
		return false, driver.Permanent(err)
	}
	if st.Size() == 0 {
		return true, nil
	}
	switch err := f.glance(); {
	case errors.Is(err, errEmpty) && st.Size() < smallest:
		return false, driver.Permanent(fmt.Errorf("%s is no SQLite database; name another file", f.path))
	case errors.Is(err, errEmpty):
		return true, nil
	default:
		return false, err
	}
}

// beside refuses what SQLite would wait for (a pipe), or take for a file of its own (a second name of another file,
// whose owner it changes for root), in the place of a file that it makes.
func (f *file) beside() error {
	for _, end := range []string{"-wal", "-shm", "-journal"} {
		switch st, err := os.Lstat(f.path + end); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !st.Mode().IsRegular():
			return fmt.Errorf("%s%s is not an ordinary file; remove it", f.path, end)
		case trust.HardLinks(st) > 1:
			return fmt.Errorf("%s%s has another name (a hard link); remove it", f.path, end)
		}
	}
	return nil
}

// smallest is the size of the smallest database; SQLite would overwrite what is
// smaller.
const smallest = 512

// glance looks who made the file, without locks and without leaving a log beside
// it. What was changed lately may still be in a log, so this only refuses.
func (f *file) glance() error {
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(f.path), RawQuery: "mode=ro&immutable=1"}
	if !strings.HasPrefix(uri.Path, "/") { // C:/locks.db
		uri.Path = "/" + uri.Path
	}
	c, err := openConn(uri.String(), sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return f.explain(err)
	}
	defer c.Close()
	err = f.verify(c)
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCorrupt {
		return nil // its log is just being written back; connect looks again, with locks
	}
	return f.explain(err)
}

var errEmpty = errors.New("the file has no tables")

// connect opens a connection and makes sure that the file is ours. The caller closes the connection,
// also after an error.
func (f *file) connect(ctx context.Context) (conn, error) {
	c, err := openConn(f.path, sqlite.OpenReadWrite)
	if err != nil {
		return conn{}, f.explain(err)
	}
	err = f.retry(ctx, nil, func() error { return f.verify(c) })
	for _, sql := range []string{"PRAGMA synchronous = NORMAL", fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", logSize/pageSize)} {
		if err == nil {
			err = f.explain(c.exec(sql))
		}
	}
	return c, err
}

// A transaction writes a page or two. When the log is full, the disk is waited for.
const (
	pageSize = 1 << 10
	logSize  = 4 << 20
)

// verify reads who made the file, and in which layout.
func (f *file) verify(c conn) error {
	var app, version, tables, strange int64
	for _, q := range []struct {
		sql    string
		result *int64
	}{
		{"PRAGMA application_id", &app},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &tables},
		{"SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'", &strange},
	} {
		if err := c.one(q.sql, func(s *sqlite.Stmt) { *q.result = s.ColumnInt64(0) }); err != nil {
			return err
		}
	}
	switch {
	case app == applicationID && version == layout && strange > 0:
		return driver.Permanent(fmt.Errorf("%s has triggers, views or virtual tables, which this program does not make; remove the file if it is meant for locks", f.path))
	case app == applicationID && version == layout:
		return nil
	case app == 0 && version == 0 && tables == 0:
		return errEmpty
	case app != applicationID:
		return driver.Permanent(fmt.Errorf("%s is another program's database; name another file", f.path))
	}
	return driver.Permanent(fmt.Errorf("%s was made by another version of this program (layout %d, known is %d); use that version, or name another file", f.path, version, layout))
}

// make writes the schema into a new or empty file. Only one process at a time is
// here.
func (f *file) make(ctx context.Context) error {
	existed, err := f.create()
	if err != nil {
		return driver.Permanent(fmt.Errorf("cannot make the file: %w", err))
	}
	c, err := openConn(f.path, sqlite.OpenReadWrite)
	if err != nil {
		return f.explain(err)
	}
	defer c.Close()
	return f.retry(ctx, nil, func() error {
		err := f.verify(c)
		if !errors.Is(err, errEmpty) {
			return err // another process has made it
		}
		if existed != nil {
			if err := f.notOurs(existed); err != nil {
				return err
			}
		}
		if err := c.exec(fmt.Sprintf("PRAGMA page_size = %d", pageSize)); err != nil {
			return err
		}
		mode := ""
		if err := c.one("PRAGMA journal_mode = WAL", func(s *sqlite.Stmt) { mode = s.ColumnText(0) }); err != nil {
			return err
		}
		if mode != "wal" {
			return driver.Permanent(fmt.Errorf("%s cannot have a write-ahead log here (journal mode %s): the file system lacks shared memory", f.path, mode))
		}
		if err := c.exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		if err = f.verify(c); errors.Is(err, errEmpty) {
			err = script(c, fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", schema, applicationID, layout))
		}
		if !c.AutocommitEnabled() {
			err = errors.Join(err, c.exec("ROLLBACK"))
		}
		return err
	})
}

// notOurs refuses an empty file that another user has made: it may be meant for something else.
func (f *file) notOurs(empty fs.FileInfo) error {
	if trust.Ours(empty) {
		return nil
	}
	return driver.Permanent(fmt.Errorf("%s is empty, and was made by another user; if it is meant for locks, remove it first", f.path))
}

// create makes an empty file, or returns what there is.
func (f *file) create() (existed fs.FileInfo, err error) {
	n, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, f.mode)
	if errors.Is(err, fs.ErrExist) {
		return os.Lstat(f.path)
	}
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(n.Chmod(f.mode), n.Close()) // Chmod because of the umask
}

// script runs several statements.
func script(c conn, sql string) error {
	for sql != "" {
		s, rest, err := c.PrepareTransient(sql)
		if err == nil && s != nil {
			_, err = s.Step()
			s.Finalize()
		}
		if err != nil {
			return err
		}
		sql = sql[len(sql)-rest:]
	}
	return nil
}

// patience bounds the wait for the file in a call whose context has no deadline.
var patience = 30 * time.Second

// retry repeats try while another connection keeps the file locked, until the client is closed (over).
func (f *file) retry(ctx context.Context, over <-chan struct{}, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := try()
		if err == nil || sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy {
			return f.explain(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return f.stuck(ctx.Err())
		case <-over:
			return errClosed
		}
	}
}

// same makes sure that the path still leads to the file that is open, with its log, and with the folder beside it: who
// comes after a replacement would not see our locks, nor get our messages.
func (f *file) same() error {
	id, err := trust.Identify(f.path)
	turn, beside := trust.Identify(f.folder.File("turn"))
	switch err = cmp.Or(err, beside); {
	case err == nil && id == f.id && turn == f.turn && f.guard.whole():
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist): // the way to it is barred
		return err
	}
	return driver.Permanent(fmt.Errorf("%s, its -wal, its -shm or the folder beside it %w", f.path, errReplaced))
}

var errReplaced = errors.New("was removed or replaced while in use; its locks are void: stop all who use it, then start again")

// names are the folder with the file, and the one beside it, as they were when same last found nothing changed. While
// no entry of them changes, the names in them lead to the same files. Guarded by the write lock.
type names struct {
	at     [2]*os.File
	states [2]int64
}

// sameNames is same for each transaction: it does not look again whether a folder above was replaced.
func (f *file) sameNames() error {
	now, recent := f.names.state(), time.Now().Add(-settles).UnixNano()
	if now != [2]int64{} && now == f.names.states {
		return nil
	}
	f.names.states = [2]int64{}
	err := f.same()
	if err == nil && max(now[0], now[1]) < recent { // else the next change may get the same time
		f.names.states = now
	}
	return err
}

// settles is longer than the clock of a file system stands still.
const settles = 100 * time.Millisecond

// close has the last client remove the log, unless another process writes or opens the file just now.
func (f *file) close() {
	if f.lock != nil {
		if last, _ := flock.Try(f.lock.file); last {
			f.guard.leave()
		}
	}
	if f.write.Conn != nil {
		f.write.Close()
	}
	if f.read.Conn != nil {
		f.read.Close()
	}
	f.guard.leave()
	for _, dir := range f.names.at {
		_ = dir.Close()
	}
	if f.lock != nil {
		f.lock.file.Close()
	}
	f.folder.Close()
}
