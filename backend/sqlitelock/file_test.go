package sqlitelock_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A file that cannot be used gets a clear error at once, and is not changed.
func TestFilesThatAreRefused(t *testing.T) {
	made := func(t *testing.T, path string) { // one of ours, closed, in one piece
		t.Helper()
		d := errtest.Must(sqlitelock.New(t.Context(), path))(t)
		s := session(t, d, time.Hour)
		for range 50 {
			join(t, s, mutex(newID()), true)
		}
		noError(t, d.Close())
	}
	write := func(t *testing.T, path string, data []byte) {
		t.Helper()
		noError(t, os.WriteFile(path, data, 0o600))
	}
	change := func(t *testing.T, path string, f func([]byte) []byte) {
		t.Helper()
		data := errtest.Must(os.ReadFile(path))(t)
		write(t, path, f(data))
	}
	sql := func(t *testing.T, path, script string) {
		t.Helper()
		c := errtest.Must(sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate))(t)
		defer c.Close()
		noError(t, sqlitex.ExecuteScript(c, script, nil))
	}
	log := func(t *testing.T, path string) {
		t.Helper()
		c := errtest.Must(sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenWAL))(t)
		c.Close()
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		says string
	}{
		{"text", func(t *testing.T, p string) { write(t, p, bytes.Repeat([]byte("no database\n"), 1000)) }, "no SQLite database"},
		{"one byte", func(t *testing.T, p string) { write(t, p, []byte("x")) }, "no SQLite database"},
		{"another program's database", func(t *testing.T, p string) { sql(t, p, "CREATE TABLE stock(n INTEGER)") }, "another program's"},
		{"another program's database with a number", func(t *testing.T, p string) { sql(t, p, "PRAGMA application_id = 7") }, "another program's"},
		{"another program's log", func(t *testing.T, p string) { sql(t, p, "CREATE TABLE stock(n INTEGER)"); log(t, p) }, "another program's"},
		{"another version", func(t *testing.T, p string) { made(t, p); sql(t, p, "PRAGMA user_version = 99") }, "another version"},
		{"no version", func(t *testing.T, p string) { made(t, p); sql(t, p, "PRAGMA user_version = 0") }, "another version"},
		{"half of it", func(t *testing.T, p string) {
			made(t, p)
			change(t, p, func(b []byte) []byte { return b[:len(b)/2] })
		}, "damaged"},
		{"the first page lost", func(t *testing.T, p string) {
			made(t, p)
			change(t, p, func(b []byte) []byte { copy(b[100:4096], make([]byte, 3996)); return b })
		}, "damaged"},
		{"a directory", func(t *testing.T, p string) {
			noError(t, os.Mkdir(p, 0o700))
		}, "is a directory"},
		{"a symbolic link to nothing", func(t *testing.T, p string) {
			if err := os.Symlink(p+".none", p); err != nil {
				t.Skip(err)
			}
		}, "symbolic link to nothing"},
		{"a second name", func(t *testing.T, p string) {
			made(t, p)
			if err := os.Link(p, p+".too"); err != nil {
				t.Skip(err)
			}
		}, "another name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "locks.db")
			c.make(t, path)
			before := contents(t, filepath.Dir(path))
			d, err := sqlitelock.New(within(t), path)
			if err == nil {
				d.Close()
				t.Fatal("it was opened")
			}
			if !driver.IsPermanent(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("the error is permanent: %v, and does not say %q of %s: %v", driver.IsPermanent(err), c.says, path, err)
			}
			if after := contents(t, filepath.Dir(path)); after != before {
				t.Errorf("it was changed: before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

// contents describes all files below a folder.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		all.WriteString(path + " " + info.Mode().String())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, " %x", sha256.Sum256(data))
		}
		all.WriteString("\n")
		return nil
	})
	noError(t, err)
	return all.String()
}

func TestPathsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"sqlite:", "no file is named"},
		{"sqlite:///", "no file is named"},
		{"sqlite:" + t.TempDir() + "/", "no file is named"},
		{"sqlite:" + t.TempDir() + strings.Repeat("/long", 100), "does not exist"},
		{"sqlite:" + t.TempDir() + "/" + strings.Repeat("long", 120), "too long"},
		{"sqlite://host/locks.db", "has a host"},
		{"sqlite:" + t.TempDir() + "/none/locks.db", "does not exist; make it first"},
		{"sqlite:x.db?mode=9", "not a number in base 8"},
		{"sqlite:x.db?mode=7777", "not between"},
		{"sqlite:x.db?nosuch=1", "unknown option nosuch"},
	} {
		u := errtest.Must(driver.ParseURL(c.url))(t)
		if d, err := driver.OpenURL(within(t), u); err == nil {
			d.Close()
			t.Errorf("%s was opened", c.url)
		} else if !strings.Contains(err.Error(), c.says) || !driver.IsPermanent(err) {
			t.Errorf("%s: %v, not %q", c.url, err, c.says)
		}
	}
}

// All names of a file lead to the same locks.
func TestNamesOfOneFile(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	noError(t, os.Mkdir(sub, 0o700))
	path := filepath.Join(sub, "locks.db")
	s := session(t, open(t, path), time.Hour)
	held := join(t, s, mutex("q"), true)

	for name, link := range map[string]string{"a link to the file": path, "a link to the folder": sub} {
		if err := os.Symlink(link, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	t.Chdir(sub)
	names := []string{"locks.db", "../sub/locks.db", filepath.Join(dir, "a link to the file"), filepath.Join(dir, "a link to the folder", "locks.db")}
	for _, name := range names {
		other := session(t, open(t, name), time.Hour)
		next := join(t, other, mutex("q"), false)
		noError(t, s.Leave(t.Context(), held, true))
		s, held = other, await(t, other, next) // by a message
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*-interlock")); left != nil {
		t.Errorf("a link got a folder of its own: %v", left)
	}
}

func TestALongPath(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		dir = filepath.Join(dir, strings.Repeat("long", 20))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(dir, "locks.db")
	a, b := open(t, path), open(t, path)
	s, other := session(t, a, time.Hour), session(t, b, time.Hour)
	held := join(t, s, mutex("q"), true)
	next := join(t, other, mutex("q"), false)
	noError(t, s.Leave(t.Context(), held, true))
	await(t, other, next)
	for _, f := range a.Check(t.Context()) {
		if f.Check == "messages" && f.Status != driver.OK {
			t.Errorf("%+v", f)
		}
	}
	// The death is noticed as well.
	last := join(t, s, mutex("q"), false)
	noError(t, b.Close())
	await(t, s, last)
}

func TestCheckOfAHealthyFile(t *testing.T) {
	d := open(t, file(t))
	session(t, d, time.Hour)
	findings := d.Check(t.Context())
	if len(findings) < 7 {
		t.Errorf("only %d findings", len(findings))
	}
	for _, f := range findings {
		if f.Check == "" || f.Detail == "" {
			t.Errorf("an empty finding: %+v", f)
		}
		if f.Status == driver.Fail || f.Status == driver.OK && (f.Promise != "" || f.Remedy != "") || f.Status != driver.OK && (f.Promise == "" || f.Remedy == "") {
			t.Errorf("%+v", f)
		}
		t.Logf("%-12s %-4s %s", f.Check, f.Status, f.Detail)
	}
}

func TestCheckFindsAReplacedFile(t *testing.T) {
	path := file(t)
	d := open(t, path)
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Skip(err)
	}
	failed := 0
	for _, f := range d.Check(t.Context()) {
		if f.Status == driver.Fail {
			failed++
		}
	}
	if failed == 0 {
		t.Error("nothing failed")
	}
}

// The engine must not have the fault in resetting its log that was found in 2026
// and corrupts files under exactly our load.
func TestEngineIsNewEnough(t *testing.T) {
	c, err := sqlite.OpenConn(":memory:")
	noError(t, err)
	defer c.Close()
	var version int64
	err = sqlitex.ExecuteTransient(c, "SELECT sqlite_version()", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		var a, b, d int64
		if n, err := fmt.Sscanf(s.ColumnText(0), "%d.%d.%d", &a, &b, &d); n != 3 {
			return errors.Join(errors.New("no version"), err)
		}
		version = a*1_000_000 + b*1000 + d
		return nil
	}})
	noError(t, err)
	if version < 3_051_003 {
		t.Errorf("SQLite %d is older than 3.51.3", version)
	}
}
