package filelock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
)

// user is one that has no name on this machine. It is in a group of its own, and in those of its list.
type user struct {
	id     uint32
	groups []uint32
}

// locksGroup is that of the directories that users share.
const locksGroup = 64300

var (
	alice = user{64301, []uint32{locksGroup}}
	bob   = user{64302, []uint32{locksGroup}}
	carol = user{id: 64303} // not in the group
)

func (u user) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: u.id, Gid: u.id, Groups: u.groups},
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd
}

// place makes a directory for the tests of several users.
func place(t *testing.T, of, group uint32, mode fs.FileMode) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run programs as other users: sudo go test")
	}
	dir = filepath.Join(t.TempDir(), "locks")
	ok(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o711)) // which all have to pass
	ok(t, os.Mkdir(dir, 0o700))
	give(t, dir, of, group, mode)
	return dir
}

func give(t *testing.T, path string, of, group uint32, mode fs.FileMode) {
	t.Helper()
	ok(t, os.Chown(path, int(of), int(group)))
	ok(t, os.Chmod(path, mode))
}

// file makes one as flock(1) does.
func file(t *testing.T, path string, of, group uint32, mode fs.FileMode) {
	t.Helper()
	ok(t, os.WriteFile(path, nil, 0o600))
	give(t, path, of, group, mode)
}

// older has nothing in a directory be one that was just made.
func older(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-time.Minute)
	ok(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error { return os.Chtimes(path, old, old) }))
}

// puppet is a client of another user: a copy of this binary that does what it reads, line by line.
type puppet struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string
}

const puppets = "puppet"

func (u user) start(t *testing.T, umask int) *puppet {
	t.Helper()
	p := &puppet{t: t, cmd: u.command("/proc/self/exe"), answers: make(chan string, 1)}
	p.cmd.Env = append(os.Environ(), variable+"="+puppets, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	ok(t, err)
	out, err := p.cmd.StdoutPipe()
	ok(t, err)
	if err := p.cmd.Start(); errors.Is(err, fs.ErrPermission) {
		t.Skip("other users may not run the test binary:", err)
	}
	ok(t, err)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.answers <- lines.Text()
		}
		close(p.answers)
	}()
	p.must("umask", fmt.Sprint(umask))
	return p
}

// open starts a client, which is told nothing by a heartbeat: the next one is far.
func (u user) open(t *testing.T, umask int, url string) *puppet {
	t.Helper()
	p := u.start(t, umask)
	p.must("open", url)
	return p
}

func (p *puppet) tell(words ...string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, strings.Join(words, " "))
	ok(p.t, err)
}

func (p *puppet) answer() string {
	p.t.Helper()
	select {
	case answer, alive := <-p.answers:
		if alive {
			return answer
		}
	case <-time.After(2 * patience):
	}
	p.t.Fatal("no answer")
	return ""
}

func (p *puppet) ask(words ...string) string {
	p.t.Helper()
	p.tell(words...)
	return p.answer()
}

func (p *puppet) must(words ...string) {
	p.t.Helper()
	if answer := p.ask(words...); answer != "ok" {
		p.t.Fatalf("user %d, %q: %s", p.cmd.SysProcAttr.Credential.Uid, words, answer)
	}
}

func (p *puppet) kill() {
	p.t.Helper()
	ok(p.t, p.cmd.Process.Kill())
}

func init() {
	if os.Getenv(variable) != puppets {
		return
	}
	var c *interlock.Client
	held := map[string]*interlock.Lease{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer := "ok"
		if err := act(strings.Fields(lines.Text()), &c, held); err != nil {
			answer = strconv.Quote(err.Error())
		}
		fmt.Println(answer)
	}
	os.Exit(0)
}

func act(words []string, c **interlock.Client, held map[string]*interlock.Lease) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	arg := words[1]
	switch words[0] {
	case "umask":
		n, err := strconv.Atoi(arg)
		syscall.Umask(n)
		return err
	case "open":
		*c, err = interlock.Open(ctx, arg, interlock.TTL(time.Hour))
	case "acquire":
		held[arg], err = (*c).Mutex(arg).Acquire(ctx)
	case "try":
		held[arg], err = (*c).Mutex(arg).TryAcquire(ctx)
	case "release":
		return held[arg].Release()
	case "count":
		for range 20 {
			if err := count(ctx, (*c).Mutex("count"), arg); err != nil {
				return err
			}
		}
	case "list":
		var names []string
		for q, err := range (*c).Admin().Queues(ctx, "") {
			if err != nil {
				return err
			}
			names = append(names, fmt.Sprintf("%s:%d,%d", q.Name, len(q.Holders), len(q.Waiters)))
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != arg {
			return fmt.Errorf("listed are %s", got)
		}
	}
	return err
}

// count adds one to the number in a file.
func count(ctx context.Context, l *interlock.Lock, path string) error {
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(fmt.Sprint(n+1)), 0o666); err != nil {
		return err
	}
	return lease.Release()
}

// sharedBy are how several users can share a directory, with the option that they use.
var sharedBy = []struct {
	name      string
	of, group uint32
	mode      fs.FileMode
	option    string
}{
	{"a group", 0, locksGroup, 0o770 | fs.ModeSetgid, "?mode=660"},
	{"a group of one of them", alice.id, locksGroup, 0o770 | fs.ModeSetgid, "?mode=660"},
	{"all", 0, 0, 0o777 | fs.ModeSticky, "?mode=666"},
}

// Promise: two users share a directory, whoever makes the files and with whatever umask: they exclude each other and
// flock(1), see each other, and a waiter is told at once when the other one releases, or dies.
func TestTwoUsersShareADirectory(t *testing.T) {
	for _, by := range sharedBy {
		for _, umask := range []int{0o022, 0o077} {
			t.Run(fmt.Sprintf("%s, umask %03o", by.name, umask), func(t *testing.T) {
				dir := place(t, by.of, by.group, by.mode)
				url := "file://" + dir + by.option
				a, b := alice.open(t, umask, url), bob.open(t, umask, url)
				a.must("acquire", "x")
				if got := b.ask("try", "x"); !strings.Contains(got, interlock.ErrBusy.Error()) {
					t.Fatalf("beside a holder: %s", got)
				}
				b.must("list", "x:1,0")
				if by.mode&fs.ModeSticky == 0 && !refusedTo(t, bob, filepath.Join(dir, "x")) {
					t.Error("flock gets the file that another user has locked")
				}
				b.tell("acquire", "x")
				isListed(t, a, "x:1,1")
				a.must("release", "x")
				if got := b.answer(); got != "ok" {
					t.Fatalf("after a release: %s", got)
				}
				a.tell("acquire", "x")
				isListed(t, b, "x:1,1")
				b.kill()
				if got := a.answer(); got != "ok" {
					t.Fatalf("after a death: %s", got)
				}
			})
		}
	}
}

// isListed waits until a client lists that.
func isListed(t *testing.T, p *puppet, what string) {
	t.Helper()
	busy.Until(t, "it is listed: "+what, func() bool { return p.ask("list", what) == "ok" })
}

// refusedTo reports whether flock(1) of a user does not get a lock at once.
func refusedTo(t *testing.T, u user, path string) bool {
	t.Helper()
	out, err := u.command("flock", "-n", path, "true").CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return true
	}
	if err != nil {
		t.Fatalf("flock: %v: %s", err, out)
	}
	return false
}

// Promise: users that begin at the same time in an empty directory, with flock(1) of a third one beside them, make one
// file of each lock: a counter ends exact.
func TestUsersThatBeginAtOnce(t *testing.T) {
	dir := place(t, 0, locksGroup, 0o770|fs.ModeSetgid)
	counter := filepath.Join(filepath.Dir(dir), "counter")
	file(t, counter, 0, 0, 0o666)
	ok(t, os.WriteFile(counter, []byte("0"), 0))
	var all []*puppet
	for _, u := range []user{alice, bob, alice, bob} {
		all = append(all, u.start(t, 0o077))
	}
	var other sync.WaitGroup
	defer other.Wait()
	other.Go(func() {
		script := fmt.Sprintf(`umask 022; for i in $(seq 20); do flock %s sh -c 'n=$(cat %s); echo $((n+1)) > %[2]s'; done`, filepath.Join(dir, "count"), counter)
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, then := range [][]string{{"open", "file://" + dir + "?mode=660"}, {"count", counter}} {
		for _, p := range all {
			p.tell(then...)
		}
		for _, p := range all {
			if got := p.answer(); got != "ok" {
				t.Fatalf("%q: %s", then, got)
			}
		}
	}
	other.Wait()
	if text, err := os.ReadFile(counter); err != nil || strings.TrimSpace(string(text)) != "100" {
		t.Errorf("the counter is %q, %v", text, err)
	}
}

// Promise: a file that another user has just made, and not given its mode so far, is waited for; so is a folder.
func TestWhatAnotherUserHasJustMadeIsWaitedFor(t *testing.T) {
	dir := place(t, 0, locksGroup, 0o770|fs.ModeSetgid)
	url := "file://" + dir + "?mode=660"
	late := func(path string, mode fs.FileMode, p *puppet, words ...string) {
		t.Helper()
		give(t, path, alice.id, locksGroup, 0o700)
		p.tell(words...)
		time.Sleep(100 * time.Millisecond)
		ok(t, os.Chmod(path, mode))
		if got := p.answer(); got != "ok" {
			t.Errorf("%s: %s", path, got)
		}
	}
	folder := filepath.Join(dir, ".interlock")
	p := bob.start(t, 0o022)
	ok(t, os.Mkdir(folder, 0o700))
	late(folder, 0o770|fs.ModeSetgid, p, "open", url)
	for _, path := range []string{filepath.Join(folder, "queues/x"), filepath.Join(dir, "y")} {
		ok(t, os.WriteFile(path, nil, 0o600))
		late(path, 0o660, p, "acquire", filepath.Base(path))
	}
}

// Promise: what a user may not use is refused at once, with one line that says what it is, and what to do.
func TestWhatAUserMayNotUseIsRefused(t *testing.T) {
	const shares, alone = "?mode=660", ""
	shared := func(t *testing.T) string { return place(t, 0, locksGroup, 0o770|fs.ModeSetgid) }
	used := func(t *testing.T, dir string, by user, option string) {
		t.Helper()
		p := by.open(t, 0o022, "file://"+dir+option)
		p.must("acquire", "x")
		p.must("release", "x")
	}
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T) (dir string)
		by      user
		option  string
		says    []string // DIR is the directory; nil: it is not refused
	}{
		{"another user's directory", func(t *testing.T) string { return place(t, alice.id, alice.id, 0o755) }, bob, alone,
			[]string{"DIR belongs to user 64301", "mode=0660"}},
		{"another user's directory that all can write", func(t *testing.T) string { return place(t, alice.id, alice.id, 0o777|fs.ModeSticky) }, bob, alone,
			[]string{"every user can write the folder DIR"}},
		{"root's directory", func(t *testing.T) string { return place(t, 0, 0, 0o755) }, bob, alone,
			[]string{"mkdir DIR/.interlock: permission denied", "DIR belongs to root", "a directory of your own"}},
		{"root's directory, to be shared", func(t *testing.T) string { return place(t, 0, locksGroup, 0o755) }, bob, shares,
			[]string{"mkdir DIR/.interlock: permission denied", "chmod 2770 DIR"}},
		{"a directory of a group that the user is not in", shared, carol, shares,
			[]string{"DIR belongs to root and group 64300", "user 64303 is not in the group"}},
		{"locks of another user alone", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, alice, alone)
			return dir
		}, bob, shares, []string{"DIR/.interlock is for user 64301 alone"}},
		{"locks that are shared, by one who does not", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, alice, shares)
			return dir
		}, bob, alone, []string{"DIR/.interlock was made with mode=660"}},
		{"the same one's locks that are not shared", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, bob, alone)
			return dir
		}, bob, shares, []string{"DIR/.interlock was made with mode=600"}},
		{"a folder that lacks the group", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, alice, shares)
			give(t, filepath.Join(dir, ".interlock/queues"), alice.id, alice.id, 0o770)
			return dir
		}, bob, shares, []string{"open DIR/.interlock/queues: permission denied", "chgrp 64300 DIR/.interlock/queues"}},
		{"a row of another user alone", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, alice, shares)
			give(t, filepath.Join(dir, ".interlock/queues/x"), alice.id, alice.id, 0o600)
			return dir
		}, bob, shares, []string{"DIR/.interlock/queues/x belongs to user 64301", "chgrp 64300 DIR/.interlock/queues/x && chmod 660 DIR/.interlock/queues/x"}},
		{"a lock file that root has made for itself", func(t *testing.T) string {
			dir := shared(t)
			file(t, filepath.Join(dir, "x"), 0, locksGroup, 0o600)
			return dir
		}, bob, shares, []string{"open DIR/x: permission denied", "belongs to root", "chmod 660 DIR/x"}},
		{"a lock file that can be read", func(t *testing.T) string {
			dir := shared(t)
			file(t, filepath.Join(dir, "x"), 0, 0, 0o644)
			return dir
		}, bob, shares, nil},
		{"a directory that can be read, and a new lock", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, alice, shares)
			ok(t, os.Remove(filepath.Join(dir, "x")))
			ok(t, os.Chmod(dir, 0o750))
			return dir
		}, bob, shares, []string{"open DIR/x: permission denied", "DIR belongs to root and group 64300, with mode 750", "chmod 2770 DIR"}},
		{"a directory that can be read, and a lock that is there", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, alice, shares)
			ok(t, os.Chmod(dir, 0o750))
			return dir
		}, bob, shares, nil},
		{"locks that root has used first", func(t *testing.T) string {
			dir := shared(t)
			used(t, dir, user{}, shares)
			return dir
		}, bob, shares, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := c.prepare(t)
			older(t, dir)
			p := c.by.start(t, 0o022)
			began := time.Now()
			got := p.ask("open", "file://"+dir+c.option)
			if got == "ok" {
				got = p.ask("acquire", "x")
			}
			if after := time.Since(began); after > patience/2 {
				t.Errorf("after %v", after)
			}
			if c.says == nil && got != "ok" || strings.Contains(got, `\n`) {
				t.Errorf("%s", got)
			}
			for _, says := range c.says {
				if says = strings.ReplaceAll(says, "DIR", dir); !strings.Contains(got, says) {
					t.Errorf("it does not say %q: %s", says, got)
				}
			}
		})
	}
}

// Promise: a waiter whose turn it is, and that may not lock the file, fails, and those behind it get the lock.
func TestAWaiterThatMayNotLockTheFileFails(t *testing.T) {
	dir := place(t, 0, locksGroup, 0o770|fs.ModeSetgid)
	url := "file://" + dir + "?mode=660"
	file(t, filepath.Join(dir, "x"), alice.id, alice.id, 0o600)
	older(t, dir)
	a, b, c := alice.open(t, 0o022, url), bob.open(t, 0o022, url), alice.open(t, 0o022, url)
	a.must("acquire", "x")
	b.tell("acquire", "x")
	isListed(t, a, "x:1,1")
	c.tell("acquire", "x")
	isListed(t, a, "x:1,2")
	a.must("release", "x")
	if got := b.answer(); !strings.Contains(got, "chmod 660 "+filepath.Join(dir, "x")) {
		t.Errorf("it fails with %s", got)
	}
	if got := c.answer(); got != "ok" {
		t.Errorf("the next one: %s", got)
	}
}

// Promise: a directory that does not exist is made for those who share it.
func TestADirectoryIsMadeForAll(t *testing.T) {
	above := place(t, 0, 0, 0o777|fs.ModeSticky)
	for option, u := range map[string]user{"?mode=660": {carol.id, []uint32{alice.id}}, "?mode=666": carol} {
		url := "file://" + filepath.Join(above, option[1:]) + option
		a, b := alice.open(t, 0o077, url), u.open(t, 0o077, url)
		b.must("acquire", "x")
		a.tell("acquire", "x")
		isListed(t, b, "x:1,1")
		b.must("release", "x")
		if got := a.answer(); got != "ok" {
			t.Errorf("%s: %s", option, got)
		}
	}
}
