package sqlitelock_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/fileclock"
	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// tamper writes into a file what no driver would.
func tamper(t *testing.T, path, script string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err == nil {
		defer c.Close()
		c.SetBusyTimeout(limit)
		err = sqlitex.ExecuteScript(c, script, nil)
	}
	noError(t, err)
}

// insert puts the ticket of a session into a queue that is empty, as a holder.
func insert(t *testing.T, path, queue, session, mailbox string, followers ...string) {
	t.Helper()
	q := rows.Queue{Name: queue, Kind: driver.Mutex, Capacity: 1, Token: 1, Followers: followers, Tickets: []*rows.Ticket{{ID: newID(), Units: 1, Held: true, Token: 1,
		Session: exchange.Session{ID: session, TTL: time.Hour, Mailbox: mailbox}, End: time.Unix(0, 1<<62)}}}
	boot := fnv.New64a()
	boot.Write([]byte(errtest.Must(fileclock.New())(t).Boot))
	of := boot.Sum64()
	var out rows.Codec
	q.Fields(&out, func() { rows.Number(&out, &of); rows.Number(&out, &q.Behind) })
	tamper(t, path, fmt.Sprintf("DELETE FROM queue WHERE name = '%s'; INSERT INTO queue(name, data) VALUES ('%[1]s', x'%x')", queue, out.Out))
}

// outside makes a folder of things that are nobody's business, and returns a function that
// fails if they have changed, or anybody has connected or written to the sockets.
func outside(t *testing.T) (dir string, untouched func()) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"file", "x.live", "turn"} {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	stream := errtest.Must(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "x.sock"), Net: "unix"}))(t)
	t.Cleanup(func() { stream.Close() })
	datagrams := errtest.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "x.post"), Net: "unixgram"}))(t)
	t.Cleanup(func() { datagrams.Close() })
	for _, name := range []string{"x.sock", "x.post"} {
		noError(t, os.Chmod(filepath.Join(dir, name), 0o600))
	}
	before := contents(t, dir)
	return dir, func() {
		t.Helper()
		if after := contents(t, dir); after != before {
			t.Errorf("something outside the folder was changed: before\n%s\nafter\n%s", before, after)
		}
		soon := func() time.Time { return time.Now().Add(50 * time.Millisecond) } // what has come is read at once
		stream.SetDeadline(soon())
		if c, err := stream.Accept(); err == nil {
			c.Close()
			t.Error("somebody has connected to a socket outside the folder")
		}
		datagrams.SetDeadline(soon())
		data := make([]byte, 1000)
		if n, _, err := datagrams.ReadFrom(data); err == nil {
			t.Errorf("a socket outside the folder got %q", data[:n])
		}
	}
}

// swapper replaces everything that is made in a folder by a link, until it is stopped.
func swapper(t *testing.T, folder, target string) (stop func() (swapped int)) {
	t.Helper()
	fd := errtest.Must(unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK))(t)
	events := os.NewFile(uintptr(fd), "inotify")
	errtest.Must(unix.InotifyAddWatch(fd, folder, unix.IN_CREATE))(t)
	var work sync.WaitGroup
	swapped := 0
	work.Go(func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := events.Read(buffer)
			if err != nil {
				return
			}
			for data := buffer[:n]; len(data) >= unix.SizeofInotifyEvent; {
				length := int(data[12]) | int(data[13])<<8 // of the name, with which an event ends
				name := strings.TrimRight(string(data[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
				data = data[unix.SizeofInotifyEvent+length:]
				path := filepath.Join(folder, name)
				if st, err := os.Lstat(path); err == nil && st.Mode().Type() == fs.ModeSocket && os.Remove(path) == nil {
					if os.Symlink(target, path) == nil {
						swapped++
					}
				}
			}
		}
	})
	return func() int {
		events.Close()
		work.Wait()
		return swapped
	}
}

// Whoever may write the folder makes nobody set the mode of a file elsewhere.
func TestNoModeIsSetOutsideTheFolder(t *testing.T) {
	t.Parallel()
	dir, untouched := outside(t)
	path := file(t)
	d := errtest.Must(sqlitelock.New(t.Context(), path, sqlitelock.Mode(0o660)))(t)
	defer d.Close()
	stop := swapper(t, path+"-interlock", filepath.Join(dir, "file"))
	for i := range 100 {
		s := session(t, d, time.Hour)
		errtest.Is(t, s.Close(t.Context()), nil)
		if i%10 > 0 {
			continue
		}
		other := errtest.Must(sqlitelock.New(t.Context(), path))(t)
		errtest.Is(t, other.Close(), nil)
	}
	if stop() == 0 {
		t.Error("nothing was swapped")
	}
	untouched()
}

// Links in the folder lead nowhere: what they name is not opened, locked, removed, connected
// to or written to.
func TestNoLinkIsFollowedOutOfTheFolder(t *testing.T) {
	t.Parallel()
	dir, untouched := outside(t)
	path := file(t)
	d := open(t, path)
	s := session(t, d, time.Hour)
	id, mailbox := newID(), exchange.NewMailbox()
	for file, name := range map[string]string{id + ".live": "x.live", id + ".sock": "x.sock", mailbox + ".post": "x.post"} {
		noError(t, os.Symlink(filepath.Join(dir, name), filepath.Join(path+"-interlock", file)))
	}
	insert(t, path, "q", id, mailbox, mailbox)
	waits := join(t, s, mutex("q"), false) // who waits watches the session, and tells the follower
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Await(ctx, waits); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := s.Renew(t.Context(), []driver.Ticket{waits}); err != nil {
		t.Error(err)
	}
	for q, err := range d.Queues(t.Context(), "") {
		if err == nil {
			err = d.Ask(t.Context(), q.Name, q.Members[0].ID, driver.Force)
		}
		noError(t, err)
	}
	await(t, s, waits)
	untouched()
}

// A session whose ID or socket is no name of the folder's is damage, and reaches nothing.
func TestNamesInTheFileAreChecked(t *testing.T) {
	t.Parallel()
	dir, untouched := outside(t)
	for what, row := range map[string][2]string{
		"an ID elsewhere":           {"%s/x", ""},
		"an empty ID":               {"", ""},
		"an ID with a slash":        {"/", ""},
		"an ID that is the folder":  {".", ""},
		"a long ID":                 {strings.Repeat("a", 10_000), ""},
		"an ID of other digits":     {strings.Repeat("A", 32), ""},
		"a socket elsewhere":        {newID(), "%s/x"},
		"a socket of another kind":  {newID(), newID()},
		"a socket above the folder": {newID(), "../" + exchange.NewMailbox()},
	} {
		t.Run(what, func(t *testing.T) {
			path := file(t)
			up, err := filepath.Rel(path+"-interlock", dir)
			noError(t, err)
			d := open(t, path)
			s := session(t, d, time.Hour)
			for i, name := range row {
				row[i] = strings.Replace(name, "%s", up, 1)
			}
			insert(t, path, "q", row[0], row[1])
			_, err = s.Join(t.Context(), mutex("q"))
			if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("a Join: %v", err)
			}
			join(t, session(t, open(t, path), time.Hour), mutex("well"), true)
			untouched()
		})
	}
}

// What is no lock file is not waited for.
func TestAPipeInTheFolderKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	path := file(t)
	d := open(t, path)
	s := session(t, d, time.Hour)
	id := newID()
	noError(t, syscall.Mkfifo(filepath.Join(path+"-interlock", id+".live"), 0o600))
	insert(t, path, "q", id, "")
	waits := join(t, s, mutex("q"), false)
	done := make(chan error, 1)
	go func() {
		_, err := s.Renew(t.Context(), []driver.Ticket{waits})
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(limit / 2):
		t.Error("Renew waits for a pipe")
		w, _ := os.OpenFile(filepath.Join(path+"-interlock", id+".live"), os.O_RDWR, 0) // its other end
		w.Close()
	}

	turn := path + "-interlock/turn"
	for what, make := range map[string]func() error{
		"a pipe":   func() error { return syscall.Mkfifo(turn, 0o600) },
		"a link":   func() error { return os.Symlink("/dev/null", turn) },
		"a folder": func() error { return os.Mkdir(turn, 0o700) },
	} {
		noError(t, errors.Join(os.Remove(turn), make()))
		if other, err := sqlitelock.New(within(t), path); !driver.IsPermanent(err) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s instead of the file turn: %v", what, err)
			if err == nil {
				other.Close()
			}
		}
	}
}

// Promise: a journal that is not ours, which keeps the file closed, is named, and the file opens without it.
func TestAJournalThatIsInTheWayIsNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	errtest.Must(sqlitelock.New(t.Context(), path))(t).Close()
	noError(t, os.WriteFile(path+"-journal", []byte(strings.Repeat("garbage ", 500)), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := sqlitelock.New(ctx, path); err == nil || !strings.Contains(err.Error(), path+"-journal") {
		t.Errorf("%v; want an error that names the journal", err)
	}
	noError(t, os.Remove(path+"-journal"))
	errtest.Must(sqlitelock.New(within(t), path))(t).Close()
}

// In the place of the files that SQLite makes, what is no file of its own is refused: it is neither waited for nor
// changed.
func TestWhatIsNoFileOfSQLiteIsRefused(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"-journal", "-wal", "-shm"} {
		for what, make := range map[string]func(name, target string) error{
			"a pipe":      func(name, _ string) error { return syscall.Mkfifo(name, 0o600) },
			"a link":      func(name, target string) error { return os.Symlink(target, name) },
			"a hard link": func(name, target string) error { return os.Link(target, name) },
			"a folder":    func(name, _ string) error { return os.Mkdir(name, 0o700) },
		} {
			for _, made := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s instead of %s, %v", what, end, made), func(t *testing.T) {
					t.Parallel()
					path := filepath.Join(t.TempDir(), "locks.db")
					if made {
						d := errtest.Must(sqlitelock.New(t.Context(), path))(t)
						d.Close()
					}
					name := path + end
					target := filepath.Join(filepath.Dir(path), "target")
					noError(t, errors.Join(os.WriteFile(target, nil, 0o600), os.RemoveAll(name), make(name, target)))
					before, _ := os.Lstat(target)
					done := within(t)
					go func() {
						<-done.Done()
						if w, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil { // the other end of a pipe
							time.Sleep(time.Second)
							w.Close()
						}
					}()
					d, err := sqlitelock.New(done, path)
					if err == nil {
						d.Close()
					}
					if !driver.IsPermanent(err) || !strings.Contains(err.Error(), name) || done.Err() != nil {
						t.Errorf("%v; want an error that names %s", err, name)
					}
					after, err := os.Lstat(target)
					if err != nil || after.Size() != 0 || !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() {
						t.Errorf("the target was changed: %v %v", after, err)
					}
				})
			}
		}
	}
}

// A schema that does something by itself is refused.
func TestAStrangeSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for what, script := range map[string]string{
		"a trigger": "CREATE TRIGGER x AFTER INSERT ON queue BEGIN DELETE FROM cell; END",
		"a view":    "CREATE VIEW x AS SELECT * FROM queue",
	} {
		path := file(t)
		open(t, path)
		tamper(t, path, script)
		if d, err := sqlitelock.New(t.Context(), path); !driver.IsPermanent(err) || !strings.Contains(err.Error(), "triggers, views") {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				d.Close()
			}
		}
	}
}

const nobody = 65534

// Files that others could replace or forge are refused, with the reason, and those that
// are shared are not.
func TestWhoseFilesAreUsed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only the superuser can give files to others")
	}
	chmod := func(t *testing.T, path string, mode fs.FileMode) {
		t.Helper()
		noError(t, os.Chmod(path, mode))
	}
	give := func(t *testing.T, path string) {
		t.Helper()
		noError(t, os.Lchown(path, nobody, nobody))
	}
	made := func(t *testing.T, path string, mode fs.FileMode) {
		t.Helper()
		d, err := sqlitelock.New(t.Context(), path, sqlitelock.Mode(mode))
		if err == nil {
			err = d.Close()
		}
		noError(t, err)
	}
	place := filepath.Dir
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		says    string // "" if it is opened
	}{
		{"a folder that everybody can write", func(t *testing.T, p string) { chmod(t, place(p), 0o777) }, "every user can write"},
		{"one like /tmp", func(t *testing.T, p string) { chmod(t, place(p), 0o777|fs.ModeSticky) }, "every user can write"},
		{"one like /tmp, shared", func(t *testing.T, p string) { made(t, p, 0o660); chmod(t, place(p), 0o777|fs.ModeSticky) }, "every user can write"},
		{"a folder of another user", func(t *testing.T, p string) { give(t, place(p)) }, "belongs to"},
		{"a folder that a strange group can write", func(t *testing.T, p string) {
			noError(t, os.Chown(place(p), 0, nobody))
			chmod(t, place(p), 0o775)
		}, "group that you are not in"},
		{"a folder that our group can write", func(t *testing.T, p string) { chmod(t, place(p), 0o775) }, ""},
		{"a file of another user", func(t *testing.T, p string) { made(t, p, 0o600); give(t, p) }, "alone"},
		{"locks of another user", func(t *testing.T, p string) { made(t, p, 0o600); give(t, p+"-interlock") }, "can forge all locks"},
		{"locks of another user, first", func(t *testing.T, p string) {
			noError(t, os.Mkdir(p+"-interlock", 0o777))
			give(t, p+"-interlock")
		}, "can forge all locks"},
		{"all shared", func(t *testing.T, p string) {
			made(t, p, 0o660)
			give(t, place(p))
			chmod(t, place(p), 0o770|fs.ModeSetgid)
			give(t, p)
			give(t, p+"-interlock")
		}, ""},
		{"an empty file of a member", func(t *testing.T, p string) {
			noError(t, os.WriteFile(p, nil, 0o600))
			chmod(t, p, 0o660)
			give(t, p)
		}, "is empty"},
		{"an empty file of ours", func(t *testing.T, p string) {
			noError(t, os.WriteFile(p, nil, 0o600))
		}, ""},
		{"a link of another user in a folder of all", func(t *testing.T, p string) {
			target := file(t)
			made(t, target, 0o600)
			chmod(t, place(p), 0o777|fs.ModeSticky)
			noError(t, os.Symlink(target, p))
			give(t, p)
		}, "symbolic link of"},
		{"a link of another user to an empty file of ours", func(t *testing.T, p string) {
			target := file(t)
			noError(t, os.WriteFile(target, nil, 0o600))
			give(t, place(p))
			noError(t, os.Symlink(target, p))
			give(t, p)
		}, "symbolic link of"},
		{"a link of another user to locks of ours", func(t *testing.T, p string) {
			target := file(t)
			made(t, target, 0o600)
			noError(t, os.Symlink(target, p))
			give(t, p)
		}, "symbolic link of"},
		{"a link of a member to locks of ours, in a folder of the group", func(t *testing.T, p string) {
			target := file(t)
			made(t, target, 0o600)
			made(t, p, 0o660)
			give(t, place(p))
			chmod(t, place(p), 0o770|fs.ModeSetgid)
			noError(t, errors.Join(os.Remove(p), os.Symlink(target, p)))
			give(t, p)
		}, "symbolic link of"},
		{"a link of another user to a folder of ours", func(t *testing.T, p string) {
			target := file(t)
			made(t, target, 0o600)
			noError(t, errors.Join(os.Remove(place(p)), os.Symlink(place(target), place(p))))
			give(t, place(p))
		}, "symbolic link of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := file(t)
			c.prepare(t, path)
			d, err := sqlitelock.New(within(t), path)
			if err == nil {
				defer d.Close()
			}
			switch {
			case c.says == "" && err != nil:
				t.Errorf("it was refused: %v", err)
			case c.says != "" && (!driver.IsPermanent(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")):
				t.Errorf("the error does not say %q: %v", c.says, err)
			}
			if target, err := filepath.EvalSymlinks(path); c.says == "is empty" && err == nil {
				if _, err := os.Lstat(target + "-interlock"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a folder was made beside what was refused: %v", err)
				}
			}
		})
	}
}

// The members of a group share a file, whoever made it, and tell each other what happens.
func TestAGroupSharesAFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only the superuser can have another user take part")
	}
	defer syscall.Umask(syscall.Umask(0o077))
	path := file(t)
	place := filepath.Dir(path)
	err := errors.Join(os.Chmod(filepath.Dir(place), 0o755), os.Chown(place, 0, nobody), os.Chmod(place, 0o770|fs.ModeSetgid))
	noError(t, err)
	d := errtest.Must(sqlitelock.New(t.Context(), path, sqlitelock.Mode(0o660)))(t)
	defer d.Close()
	s := session(t, d, time.Hour)
	held := join(t, s, mutex("q"), true)
	t.Setenv(asNobody, "1")
	p := newPuppet(t, path)
	p.must("open", "open", "1h")
	p.must("waits", "join", "q")
	p.send("await", "q")
	noError(t, s.Leave(t.Context(), held, true))
	if got := p.answer(); got != "held" {
		t.Fatalf("the other user: %s", got)
	}
	next := join(t, s, mutex("q"), false)
	p.kill()
	await(t, s, next)
}

// Those who may read the file, but not write it, are let out of a folder of before.
func TestTheFolderIsForThoseWhoWrite(t *testing.T) {
	path := file(t)
	d := errtest.Must(sqlitelock.New(t.Context(), path, sqlitelock.Mode(0o640)))(t)
	defer d.Close()
	noError(t, os.Chmod(path+"-interlock", 0o757))
	open(t, path)
	if st, err := os.Stat(path + "-interlock"); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// The doctor looks at the folders above, and at who can read the file and not write it.
func TestTheDoctorLooksWhoCanReplaceTheFile(t *testing.T) {
	path := file(t)
	up := filepath.Join(filepath.Dir(path), "up")
	path = filepath.Join(up, "in", "locks.db")
	noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	d := open(t, path)
	finding := func(check string) driver.Finding {
		for _, f := range d.Check(t.Context()) {
			if f.Check == check {
				return f
			}
		}
		return driver.Finding{}
	}
	if f := finding("sharing"); f.Status != driver.OK {
		t.Errorf("%+v", f)
	}
	if f := finding("folder"); f.Status != driver.OK {
		t.Errorf("%+v", f)
	}
	noError(t, os.Chmod(up, 0o777))
	if f := finding("folder"); f.Status != driver.Warn || !strings.Contains(f.Detail, up) {
		t.Errorf("%+v", f)
	}
	noError(t, os.Chmod(filepath.Dir(path), 0o777))
	if f := finding("folder"); f.Status != driver.Fail || !strings.Contains(f.Detail, filepath.Dir(path)) {
		t.Errorf("%+v", f)
	}
	noError(t, os.Chmod(filepath.Dir(path), 0o700))
	noError(t, d.Close())
	noError(t, os.Chmod(path, 0o640))
	d = open(t, path)
	if f := finding("sharing"); f.Status != driver.Warn || !strings.Contains(f.Remedy, "chmod") {
		t.Errorf("%+v", f)
	}
}
