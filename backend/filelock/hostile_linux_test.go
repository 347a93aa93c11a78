package filelock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"github.com/interlock-go/interlock/internal/busy"
)

// outside makes a folder of things that are nobody's business, and returns a function that fails if they have changed,
// or anybody has written to the socket.
func outside(t *testing.T) (dir string, untouched func()) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"file", "q", strings.Repeat("a", 32)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	old := time.Now().Add(-3 * aDay)
	state := func() (all string) {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			st, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			all += fmt.Sprintln(f.Name(), st.Mode(), st.Size())
		}
		st, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return all + st.Mode().String()
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Chtimes(filepath.Join(dir, f.Name()), old, old); err != nil {
			t.Fatal(err)
		}
	}
	before := state()
	return dir, func() {
		t.Helper()
		if after := state(); after != before {
			t.Errorf("something outside was changed: before\n%s\nafter\n%s", before, after)
		}
		conn.SetDeadline(time.Now().Add(50 * time.Millisecond)) // what has come is read at once
		data := make([]byte, 1000)
		if n, _, err := conn.ReadFrom(data); err == nil {
			t.Errorf("a socket outside got %q", data[:n])
		}
	}
}

// work does what clients do, and tidies. Errors are no matter.
func work(t *testing.T, s *store, session driver.Session) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, kind := range []driver.Kind{driver.Semaphore, driver.Mutex} {
		r := request("q" + string(kind[:1]))
		if r.Kind = kind; kind == driver.Semaphore {
			r.Queue = "q"
		}
		if ticket, err := session.Join(ctx, r); err == nil {
			_, _ = session.Renew(ctx, []driver.Ticket{ticket})
			_ = session.Leave(ctx, ticket, true)
		}
	}
	_ = s.Raise(ctx, "q", 1)
	_, _ = s.Swap(ctx, driver.Swap{ID: exchange.NewID(), Name: "q", Value: []byte("x")})
	_, _, _ = s.List(ctx, "", "")
	_, _ = s.Tidy(ctx)
	_ = s.forget(ctx, 0)
	if ctx.Err() != nil {
		t.Error("somebody waits for ever")
	}
}

// CVE-2025-68146 is the same fault in another library: between the look at a lock file and its opening a
// link takes its place, and the file that the link leads to is truncated. Promise: whoever may write the
// directory makes nobody make, lengthen, remove or write a file elsewhere, nor change a mode: not by links
// in place of folders, which were there before or come at any time, and not by links in place of files.
func TestCVE202568146NoLinkIsFollowedOutOfTheDirectory(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"", queues, cells, lives, mailboxes} {
		t.Run("folder "+folder, func(t *testing.T) {
			target, untouched := outside(t)
			path := filepath.Join(t.TempDir(), "locks")
			s, session, _ := session(t, path)
			at := filepath.Join(path, ".interlock", folder)
			if err := os.Rename(at, at+".old"); err != nil {
				t.Fatal(err)
			}
			for os.Symlink(target, at) != nil { // the client may have made a new folder just now
				if err := busy.RemoveAll(at); err != nil {
					t.Fatal(err)
				}
			}
			work(t, s, session)
			if other, err := New(path); err == nil {
				other.Close()
				t.Error("a folder that is a link is used")
			}
			untouched()
		})
	}
	t.Run("files", func(t *testing.T) {
		target, untouched := outside(t)
		path := filepath.Join(t.TempDir(), "locks")
		s, session, _ := session(t, path)
		for _, name := range []string{"queues/q", "queues/.floor", "queues/.probe", "cells/q", "alive/" + strings.Repeat("b", 32),
			"mail/" + s.mailbox, "mail/interlock_" + strings.Repeat("b", 24), "../qm"} {
			at := filepath.Join(path, ".interlock", name)
			_ = os.Remove(at)
			for os.Symlink(filepath.Join(target, "file"), at) != nil { // the client may have made a mailbox just now
				if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		}
		work(t, s, session)
		s.Check(t.Context())
		untouched()
	})
	t.Run("swaps", func(t *testing.T) {
		target, untouched := outside(t)
		path := filepath.Join(t.TempDir(), "locks")
		s, session, _ := session(t, path)
		end := make(chan struct{})
		var swaps sync.WaitGroup
		swapped := 0
		swaps.Go(func() {
			for {
				for _, folder := range []string{queues, lives, mailboxes, "."} {
					select {
					case <-end:
						return
					default:
					}
					at := filepath.Join(path, ".interlock", folder)
					if os.Rename(at, at+".old") == nil {
						if os.Symlink(target, at) == nil {
							swapped++
						}
						time.Sleep(time.Millisecond)
						_ = os.Remove(at)
						_ = os.Rename(at+".old", at)
						time.Sleep(time.Millisecond)
					}
				}
			}
		})
		for range 100 {
			work(t, s, session)
			if other, err := New(path, Mode(0o660)); err == nil {
				other.Close()
			}
		}
		close(end)
		swaps.Wait()
		if swapped < 10 {
			t.Errorf("only %d swaps", swapped)
		}
		untouched()
	})
}

// harm writes a row as a member could.
func harm(t *testing.T, s *store, folder, name string, r row) {
	t.Helper()
	c := rows.Codec{Out: make([]byte, headSize)}
	r.fields(&c)
	p := &page{handle: s.dir.handle(folder, escape(name))}
	if err := s.dir.open(&p.handle); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if _, err := p.read(s.boot); err != nil {
		t.Fatal(err)
	}
	if err := p.write(c.Out, s.boot, false); err != nil {
		t.Fatal(err)
	}
}

// A second name of a file elsewhere, in the place of a row, is not written to: nor by root, who may write every file.
func TestNoOtherNameOfAFileIsWritten(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "locks")
	s, session, _ := session(t, path)
	for _, name := range []string{"queues/q", "queues/.floor", "queues/.probe", "cells/q"} {
		at := filepath.Join(path, ".interlock", name)
		_ = os.Remove(at)
		if err := os.Link(target, at); err != nil {
			t.Fatal(err)
		}
	}
	work(t, s, session)
	s.Check(t.Context())
	if st, err := os.Stat(target); err != nil || st.Size() > 0 {
		t.Errorf("an empty file elsewhere has %d bytes now, %v", st.Size(), err)
	}
}

// Promise: IDs of sessions, mailboxes and followers in a row are names of the folders', or the row is damaged. No path
// is made of another one.
func TestNamesInARowAreChecked(t *testing.T) {
	t.Parallel()
	target, untouched := outside(t)
	path := filepath.Join(t.TempDir(), "locks")
	s, session, _ := session(t, path)
	up, err := filepath.Rel(filepath.Join(path, ".interlock", mailboxes), target)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(path, ".interlock", lives, strings.Repeat("c", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	good := func(id, mail string) *queue {
		return &queue{Queue: rows.Queue{Name: "q", Kind: driver.Semaphore, Capacity: 1, Tickets: []*rows.Ticket{{ID: "t", Units: 1, Held: true,
			Session: exchange.Session{ID: id, Mailbox: mail, TTL: time.Second}, End: s.now().Add(time.Hour)}}}}
	}
	followed := good(exchange.NewID(), "")
	followed.Followers = []string{up + "/notify"}
	for what, row := range map[string]*queue{
		"an ID elsewhere":        good(up+"/file", ""),
		"no ID":                  good("", ""),
		"an ID of other digits":  good(strings.Repeat("A", 32), ""),
		"a mailbox elsewhere":    good(exchange.NewID(), up+"/notify"),
		"a follower elsewhere":   followed,
		"an ID that is a folder": good(".", ""),
	} {
		harm(t, s, queues, "q", row)
		_, err := s.Ask(t.Context(), "q", "t", driver.Force)
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", what, err)
		}
		work(t, s, session)
		if err := os.Remove(s.dir.file(queues, "q")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	harm(t, s, queues, "q", good(strings.Repeat("c", 32), exchange.NewMailbox())) // a pipe, which nobody waits for
	work(t, s, session)
	untouched()
}

// Promise: a damaged row, a floor that cannot be read, and other things in place of rows harm no other name: all others
// are acquired, and listed, and so are values. What was left out is said last, and the doctor counts it.
func TestGarbageInARowHarmsOneName(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(path string) error{
		"garbage":  func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("garbage ", 512)), 0o600) },
		"a pipe":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"a folder": func(p string) error { return os.Mkdir(p, 0o700) },
		"a link":   func(p string) error { return os.Symlink("elsewhere", p) },
	} {
		s, err := openStore(filepath.Join(t.TempDir(), "locks"), defaultMode)
		if err != nil {
			t.Fatal(err)
		}
		d := exchange.New(s, s.mailbox)
		defer d.Close()
		session, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Join(t.Context(), request("well")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Swap(t.Context(), driver.Swap{ID: exchange.NewID(), Name: "well"}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{s.dir.file(queues, floorFile), s.dir.file(queues, "a"), s.dir.file(queues, "z"),
			s.dir.file(queues, escape(strings.Repeat("long", 100))), s.dir.file(cells, "a"), s.dir.file(cells, "z")} {
			_ = os.Remove(file)
			if err := put(file); err != nil {
				t.Fatal(err)
			}
		}
		if ticket, err := session.Join(t.Context(), request("new")); err != nil || ticket.Token < clockToken()-1e9 {
			t.Errorf("%s in place of the floor: token %d, %v", what, ticket.Token, err)
		}
		seen, last := "", error(nil)
		for q, err := range d.Queues(t.Context(), "") {
			if seen, last = seen+q.Name, err; last != nil && !strings.Contains(last.Error(), "2 more") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if seen != "newwell" || last == nil {
			t.Errorf("%s: %q are listed, and %v", what, seen, last)
		}
		values := ""
		for name, err := range d.Cells(t.Context(), "") {
			if values += name; err != nil {
				t.Errorf("%s: values: %v", what, err)
			} else if _, err := d.Load(t.Context(), name); (err == nil) != (name == "well") {
				t.Errorf("%s: value %s: %v", what, name, err)
			}
		}
		if values != "awellz" {
			t.Errorf("%s: the values %q are listed", what, values)
		}
		if f := s.checkNames(t.Context()); f.Status != driver.Warn || !strings.Contains(f.Detail, "5 more") {
			t.Errorf("%s: the doctor says %+v", what, f)
		}
		_ = s.forget(t.Context(), 0)
	}
}

// Promise: a name whose row is damaged, or cut short, is refused in one line that says what to do, so that no token
// goes back. Raised tokens write the row anew.
func TestADamagedRowIsRefusedUntilItsTokensAreRaised(t *testing.T) {
	t.Parallel()
	s, session, _ := session(t, filepath.Join(t.TempDir(), "locks"))
	path := s.dir.file(queues, "q")
	last := clockToken() + 1e9 // no clock makes up for it
	for what, damage := range map[string]func() error{
		"garbage":         func() error { return os.WriteFile(path, []byte(strings.Repeat("garbage ", 512)), 0o600) },
		"a text":          func() error { return os.WriteFile(path, []byte("garbage"), 0o600) },
		"without its end": func() error { return os.Truncate(path, pageSize/2) },
		"fields of nothing": func() error {
			harm(t, s, queues, "q", &queue{Queue: rows.Queue{Name: "q", Followers: []string{"../x"}, Token: 1 << 60}})
			return nil
		},
	} {
		last += 1000
		err := s.Raise(t.Context(), "q", last)
		for range 3 {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			var ticket driver.Ticket
			if ticket, err = session.Join(t.Context(), request("q")); err == nil {
				if ticket.Token <= last {
					t.Errorf("%s: token %d after %d", what, ticket.Token, last)
				}
				last, err = ticket.Token, session.Leave(t.Context(), ticket, true)
			}
		}
		if err := errors.Join(err, damage()); err != nil {
			t.Fatal(err)
		}
		_, err = session.Join(t.Context(), request("q"))
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), path+" is damaged") || !strings.Contains(err.Error(), "interlock admin raise-token") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
