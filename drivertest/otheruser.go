package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// tricks are what another user of the machine puts in the place of a file or a folder. Outside is a folder
// that is nobody's business.
var tricks = map[string]func(path, outside string) error{
	"a link to a folder":     func(path, outside string) error { return os.Symlink(outside, path) },
	"a link to a file":       func(path, outside string) error { return os.Symlink(filepath.Join(outside, "file"), path) },
	"a link to nothing":      func(path, outside string) error { return os.Symlink(filepath.Join(outside, "new"), path) },
	"a pipe":                 func(path, _ string) error { return exec.Command("mkfifo", "-m", "666", path).Run() },
	"a folder":               func(path, _ string) error { return os.Mkdir(path, 0o777) },
	"a file":                 func(path, _ string) error { return os.WriteFile(path, nil, 0o666) },
	"a huge file with holes": func(path, _ string) error { return huge(path) },
}

func huge(path string) error {
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return err
	}
	return os.Truncate(path, 1<<40)
}

// Each file and each folder of a store that users share is replaced in turn, in each of these ways, while it is in use.
var _ = rules.Add(rule{Name: "OtherUser", Long: true, Hook: "Shared", Says: []string{
	"What another user puts in the place of a file or a folder is not followed out of the place of the locks.",
}}, func(t *trial) {
	s := t.world.Shared(t)
	t.inUse(s)
	n := len(below(s.Folder)) - 1 // in the folder, which other users cannot replace
	turns := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i := range n {
		for what, put := range tricks {
			turns <- struct{}{}
			all.Go(func() {
				defer func() { <-turns }()
				t.replaced(t.world.Shared(t), i, what, put)
			})
		}
	}
	all.Wait()
})

// SharedFolder makes a folder that a group shares, or as root, that it shares with a user who is not root.
func SharedFolder(t testing.TB) string {
	folder := filepath.Join(t.TempDir(), "locks")
	err := os.Mkdir(folder, 0o700)
	_ = os.Chown(folder, -1, otherID) // only root can
	if err = errors.Join(err, os.Chmod(folder, 0o770|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// otherID is a user, and a group, that has no name on this machine.
const otherID = 64301

// below are the folder and all that is in it.
func below(folder string) (all []string) {
	_ = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, _ error) error {
		all = append(all, path)
		return nil
	})
	return all
}

// inUse has a client use a store.
func (t *trial) inUse(s Shared) (d driver.Driver, session driver.Session, held driver.Ticket) {
	t.Helper()
	d, err := s.Open(t.Ctx)
	if err != nil {
		t.Errorf("open a driver: %v", err)
		return nil, nil, held
	}
	t.Cleanup(func() { _ = d.Close() })
	o, err := d.Open(t.Ctx, driver.SessionOptions{TTL: 10 * limit})
	if err == nil {
		held, err = o.Join(t.Ctx, t.exclusive("q"))
	}
	if err == nil {
		_, err = o.Join(t.Ctx, t.exclusive("q"))
	}
	if err == nil {
		_, err = d.Swap(t.Ctx, set("c", 0, "v"))
	}
	if err != nil {
		t.Errorf("use a store that is shared: %v", err)
		return nil, nil, held
	}
	return d, o, held
}

// replaced has the i-th of the files and folders of a store replaced, and makes all calls then.
func (t *trial) replaced(s Shared, i int, what string, put func(path, outside string) error) {
	outside, err := os.MkdirTemp(t.TempDir(), "outside")
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	old := time.Now().Add(-72 * time.Hour)
	for _, name := range []string{"file", "q", ".floor", newID(), newID() + ".live", newID() + ".sock"} {
		path := filepath.Join(outside, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Errorf("%v", err)
		}
		_ = os.Chtimes(path, old, old)
	}
	_ = os.Chtimes(outside, old, old)
	before := contents(outside)
	d, session, held := t.inUse(s)
	paths := below(s.Folder)[1:]
	if d == nil || i >= len(paths) {
		return
	}
	path := paths[i]
	for n := range 100 { // the client may make it anew in between
		if err = os.Rename(path, fmt.Sprint(path, ".was", n)); err == nil {
			err = put(path, outside)
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	_ = os.Lchown(path, otherID, otherID) // only root can
	rel, _ := filepath.Rel(filepath.Dir(s.Folder), path)
	what = rel + " is " + what

	done := make(chan struct{})
	t.Calls.Go(func() {
		defer close(done)
		each := func(d driver.Driver, session driver.Session) {
			for _, call := range everyCall(d, session, held, t.exclusive("r"), set("c", 1, "w")) {
				ctx, cancel := context.WithTimeout(t.Ctx, 100*time.Millisecond)
				_ = call(ctx)
				cancel()
			}
		}
		each(d, session)
		ctx, cancel := context.WithTimeout(t.Ctx, time.Second)
		defer cancel()
		if other, err := s.Open(ctx); err == nil {
			o, err := other.Open(ctx, driver.SessionOptions{TTL: time.Second})
			if err == nil {
				each(other, o)
			}
			_ = other.Close()
		}
	})
	select {
	case <-done:
	case <-time.After(t.Patience / 2):
		t.Errorf("%s, and a call waits for it", what)
	}
	if after := contents(outside); after != before {
		t.Errorf("%s, and something outside has changed: before\n%s\nafter\n%s", what, before, after)
	}
}

// contents are the names, modes, times and data of what is in a folder.
func contents(folder string) string {
	var all strings.Builder
	for _, path := range below(folder) {
		st, err := os.Lstat(path)
		if err != nil {
			continue
		}
		data, _ := os.ReadFile(path)
		fmt.Fprintln(&all, filepath.Base(path), st.Mode(), st.ModTime(), st.Size(), strconv.QuoteToASCII(string(data)))
	}
	return all.String()
}
