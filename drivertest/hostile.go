package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// A backend that sends to its clients may let others send to them as well.
var _ = rules.Add(rule{Name: "Stranger", Hook: "Stranger", Says: []string{
	"What a client is sent without having asked is no more than a reason to ask, unless it proves that its sender may change the ticket.",
}}, func(t *trial) {
	t.withstand(func(a, b *client, held, _ driver.Ticket, _ driver.Swap) {
		t.world.Stranger([]*driver.Opened{a.Opened, b.Opened}, held.Token)
	})
})

// Whoever is let at the backend without rights tries all that a client can.
var _ = rules.Add(rule{Name: "NoRights", Hook: "NoRights", Says: []string{
	"Who has no rights at the backend changes no ticket, no token and no cell.",
}}, func(t *trial) {
	t.withstand(func(_, _ *client, held, waiting driver.Ticket, cell driver.Swap) {
		ctx, cancel := context.WithTimeout(t.Ctx, 10*time.Second)
		defer cancel()
		d, err := t.world.NoRights(ctx)
		if err != nil {
			t.Logf("it is not opened: %v", err)
			return
		}
		defer d.Close()
		var s driver.Session
		if o, err := d.Open(ctx, driver.SessionOptions{TTL: 10 * limit}); err != nil {
			t.Logf("no session: %v", err)
		} else {
			s = o
		}
		for _, tk := range []driver.Ticket{held, waiting} {
			for name, call := range everyCall(d, s, tk, t.exclusive("free"), cell) {
				if name == "Watch" || name == "Follow" || name == "Await" {
					continue // which change nothing, and wait
				}
				brief, stop := context.WithTimeout(ctx, time.Second)
				err := call(brief)
				stop()
				t.FatalIf(err == nil && changes[name], "%s of who has no rights succeeds", name)
			}
			for what, err := range map[string]error{
				"Force":  d.Ask(ctx, tk.Queue, tk.ID, driver.Force),
				"Raise":  d.Raise(ctx, tk.Queue, held.Token+stolen),
				"Resize": d.Resize(ctx, tk.Queue, 7),
			} {
				t.FatalIf(err == nil, "%s of who has no rights succeeds", what)
			}
		}
	})
	q := t.snapshot(t.driver(), "free")
	t.FatalIf(len(q.Members) > 0, "who has no rights stands in the queue %+v", q)
})

// changes are the calls of everyCall that change something if they succeed.
var changes = map[string]bool{"Swap": true, "Ask": true, "Raise": true, "Join": true, "Keep": true, "Leave": true}

// stolen is by how much tokens are raised by who may not.
const stolen = 1 << 40

// everyCall is a call of each method that goes to the backend, by its name. Without a session there are those of
// the driver.
func everyCall(d driver.Driver, s driver.Session, tk driver.Ticket, r driver.Request, cell driver.Swap) map[string]func(context.Context) error {
	calls := map[string]func(ctx context.Context) error{
		"Open": func(ctx context.Context) error {
			return suite.Err(d.Open(ctx, driver.SessionOptions{TTL: time.Second}))
		},
		"Load":   func(ctx context.Context) error { return suite.Err(d.Load(ctx, cell.Name)) },
		"Swap":   func(ctx context.Context) error { return suite.Err(d.Swap(ctx, cell)) },
		"Watch":  func(ctx context.Context) error { return suite.Err(d.Watch(ctx, "other", 0)) },
		"Follow": func(ctx context.Context) error { return suite.Err(d.Follow(ctx, tk.Queue, "")) },
		"Queues": func(ctx context.Context) error { return ended(d.Queues(ctx, "")) },
		"Cells":  func(ctx context.Context) error { return ended(d.Cells(ctx, "")) },
		"Ask":    func(ctx context.Context) error { return d.Ask(ctx, tk.Queue, tk.ID, driver.Revoke) },
		"Raise":  func(ctx context.Context) error { return d.Raise(ctx, tk.Queue, 1) },
	}
	if s != nil {
		maps.Copy(calls, callsOf(s, tk, r))
	}
	return calls
}

// callsOf are the calls of a session.
func callsOf(s driver.Session, tk driver.Ticket, r driver.Request) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Join":  func(ctx context.Context) error { return suite.Err(s.Join(ctx, r)) },
		"Await": func(ctx context.Context) error { return suite.Err(s.Await(ctx, tk)) },
		"Keep":  func(ctx context.Context) error { return s.Keep(ctx, tk, 10*limit) },
		"Renew": func(ctx context.Context) error { return suite.Err(s.Renew(ctx, []driver.Ticket{tk})) },
		"Leave": func(ctx context.Context) error { return s.Leave(ctx, tk, true) },
	}
}

// withstand has somebody attack a ticket that is held, one that waits for it, and a cell, and makes sure that nothing
// has come of it.
func (t *trial) withstand(attack func(a, b *client, held, waiting driver.Ticket, cell driver.Swap)) {
	a, b, c := t.client(), t.client(), t.driver()
	held := a.hold(t.exclusive("q"))
	waiting := b.wait(t.exclusive("q"))
	cell := t.swap(c, set("c", 0, "v"))
	told := t.Go(func() {
		s, err := hears(t.Ctx, a, func(s driver.Signal) bool { return s.Demand != driver.Wanted })
		t.OK(err, "Signals of a holder that is to give up")
		t.FatalIf(s.Demand != driver.Revoke, "a stranger has sent the signal %+v", s)
	})
	granted := b.awaiting(waiting)
	got := make(chan driver.Ticket, 1)
	t.Go(func() { got <- granted() })

	attack(a, b, held, waiting, set("c", cell.Version, "stolen"))
	t.holds(c, "c", cell)
	// What is sent in earnest comes after it; to those who wait for nothing, with a heartbeat.
	defer a.beat(held)()
	t.OK(c.Ask(t.Ctx, "q", held.ID, driver.Revoke), "Ask")
	told()
	t.FatalIf(len(got) > 0, "a stranger has granted the ticket that waits, while %+v is held", held)
	a.keeps(held)
	b.keeps(waiting)
	t.stands(c, "q", []driver.Ticket{held}, []driver.Ticket{waiting})
	a.leave(held)
	tk := <-got
	if is := t.snapshot(c, "q").Members[0]; tk.Token != is.Token || tk.Token <= held.Token || tk.Token >= held.Token+stolen {
		t.Fatalf("granted as %+v after %+v, and the queue has %+v", tk, held, is)
	}
}

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
	var all []func()
	for i := range n {
		for what, put := range tricks {
			turns <- struct{}{}
			all = append(all, t.Go(func() {
				defer func() { <-turns }()
				t.replaced(t.world.Shared(t), i, what, put)
			}))
		}
	}
	for _, over := range all {
		over()
	}
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
func (t *trial) inUse(s Shared) (c *client, held driver.Ticket) {
	d, err := s.Open(t.Ctx)
	t.OK(err, "open a driver")
	t.Cleanup(func() { _ = d.Close() })
	c = t.session(d, 10*limit)
	held = c.hold(t.exclusive("q"))
	c.wait(t.exclusive("q"))
	t.swap(d, set("c", 0, "v"))
	return c, held
}

// replaced has the i-th of the files and folders of a store replaced, and makes all calls then.
func (t *trial) replaced(s Shared, i int, what string, put func(path, outside string) error) {
	outside, err := os.MkdirTemp(t.TempDir(), "outside")
	t.OK(err, "a folder outside")
	old := time.Now().Add(-72 * time.Hour)
	for _, name := range []string{"file", "q", ".floor", newID(), newID() + ".live", newID() + ".sock"} {
		path := filepath.Join(outside, name)
		t.OK(os.WriteFile(path, []byte(name), 0o600), "a file outside")
		_ = os.Chtimes(path, old, old)
	}
	_ = os.Chtimes(outside, old, old)
	before := contents(outside)
	c, held := t.inUse(s)
	paths := below(s.Folder)[1:]
	if i >= len(paths) {
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
	t.OK(err, "%s", what)
	_ = os.Lchown(path, otherID, otherID) // only root can
	rel, _ := filepath.Rel(filepath.Dir(s.Folder), path)
	what = rel + " is " + what

	done := t.Done(func() error {
		each := func(d driver.Driver, session driver.Session) {
			for _, call := range everyCall(d, session, held, t.exclusive("r"), set("c", 1, "w")) {
				ctx, cancel := context.WithTimeout(t.Ctx, 100*time.Millisecond)
				_ = call(ctx)
				cancel()
			}
		}
		each(c.driver, c)
		ctx, cancel := context.WithTimeout(t.Ctx, time.Second)
		defer cancel()
		if other, err := s.Open(ctx); err == nil {
			o, err := other.Open(ctx, driver.SessionOptions{TTL: time.Second})
			if err == nil {
				each(other, o)
			}
			_ = other.Close()
		}
		return nil
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

// Whoever may write the records of one name writes garbage into each of them, while it has a holder and a waiter.
var _ = rules.Add(rule{Name: "Member", Hook: "Damages", Says: []string{
	"What stands in the records of one queue, whoever has written it there, harms no other queue.",
	"What cannot be read is left out, and an error, which comes last, says so.",
}}, func(t *trial) {
	a, b, c := t.client(), t.client(), t.client()
	var well []driver.Ticket
	for _, name := range []string{"a-well", "z-well"} {
		well = append(well, a.hold(t.exclusive(name)))
		t.swap(c.driver, set(name, 0, "v"))
	}
	bWell := b.hold(t.exclusive("b-well"))
	defer t.bounded(1 << 30)()
	brief := func(what string, call func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Ctx, time.Second/2)
		defer cancel()
		began := time.Now()
		_ = call(ctx)
		if took := time.Since(began); took > t.Patience/2 {
			t.Errorf("%s takes %v, with a context of half a second", what, took)
		}
	}
	for i := range t.world.Damages("") {
		name := fmt.Sprintf("harmed-%d", i)
		held, waiting := a.hold(t.exclusive(name)), b.wait(t.exclusive(name))
		t.swap(c.driver, set(name, 0, "v"))
		damage := t.world.Damages(name)[i]
		if err := damage.Do(); err != nil {
			t.Logf("%s: the backend refuses it: %v", damage.What, err)
			continue
		}
		t.Allow(0)
		skip := []string{"Open", "Watch", "Await", "Raise"}
		for _, tk := range []driver.Ticket{held, waiting} {
			for what, call := range everyCall(c.driver, c, tk, nowait(t.exclusive(name)), set(name, 1, "w")) {
				if !slices.Contains(skip, what) {
					brief(damage.What+": "+what, call)
				}
			}
			skip = append(skip, "Load", "Swap", "Follow", "Queues", "Cells", "Join") // are the same for each ticket
		}
		soon, cancel := context.WithTimeout(t.Ctx, 20*time.Millisecond)
		_, _ = b.Await(soon, waiting)
		cancel()
		behind := t.exclusive(name)
		brief(damage.What+": Join behind it", func(ctx context.Context) error { _, err := b.Join(ctx, behind); return err })
		for who, known := range map[*client][]driver.Ticket{a: {held, well[0], well[1]}, b: {waiting, {Queue: name, ID: behind.ID}, bWell}} {
			of := slices.DeleteFunc(slices.Clone(known), func(tk driver.Ticket) bool { return tk.Queue == name })
			t.Eventually(fmt.Sprintf("%s: Renew keeps %v", damage.What, of), func() bool { // a busy server may not answer about some
				answer, err := who.Renew(t.Ctx, known)
				t.FatalIf(errors.Is(err, driver.ErrSession), "%s: Renew: %v", damage.What, err)
				return err == nil && !slices.ContainsFunc(of, func(tk driver.Ticket) bool {
					return !slices.ContainsFunc(answer, func(r driver.Renewed) bool { return r.ID == tk.ID && r.State == driver.Kept })
				})
			})
		}
		t.Parallel(6, func(i int) { // which may go together
			if i == 0 {
				_, _ = b.Join(t.Ctx, nowait(t.exclusive(name)))
				return
			}
			tk, err := b.Join(t.Ctx, nowait(t.exclusive(fmt.Sprintf("another-%d", i))))
			t.OK(err, "%s: Join of another name", damage.What)
			b.leave(tk)
		})
		if c, err := c.driver.Load(t.Ctx, name); err != nil && !driver.IsPermanent(err) {
			t.Errorf("%s: Load would be tried again, in vain: %v", damage.What, err)
		} else if len(c.Value) > driver.MaxCell {
			t.Errorf("%s: Load returns a value of %d bytes", damage.What, len(c.Value))
		}
		seen := 0
		listed := false
		var failed error // which says, in the end, what could not be read
		for q, err := range c.driver.Queues(t.Ctx, "") {
			listed = listed || q.Name == name
			if failed = errors.Join(failed, err); len(q.Members) == 1 && (q.Members[0].ID == well[0].ID || q.Members[0].ID == well[1].ID) {
				seen++
			}
		}
		if _, err := c.driver.Follow(t.Ctx, name, ""); driver.IsPermanent(err) && !listed && failed == nil {
			t.Errorf("%s: a list says nothing of the queue, which cannot be read: %v", damage.What, err)
		}
		for name, err := range c.driver.Cells(t.Ctx, "") {
			if failed = errors.Join(failed, err); name == "a-well" || name == "z-well" {
				seen++
			}
		}
		t.FatalIf(seen != 2*len(well),
			"%s: of %d other names %d are listed: %v", damage.What, 2*len(well), seen, failed)
		brief(damage.What+": Leave", func(ctx context.Context) error {
			return errors.Join(a.Leave(ctx, held, true), b.Leave(ctx, waiting, true), b.Leave(ctx, driver.Ticket{Queue: name, ID: behind.ID}, true))
		})
	}
})
