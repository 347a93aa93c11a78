//go:build unix

package sqlitelock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"zombiezen.com/go/sqlite"
)

// asPuppet is set, to the path of the file, in copies of the test binary that are
// clients in processes of their own and do what they are told.
const asPuppet = "SQLITELOCK_TEST_PUPPET"

// asNobody is set in puppets of the superuser that are not to have its rights.
const asNobody = "SQLITELOCK_TEST_NOBODY"

// puppet is a client in another process.
type puppet struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newPuppet(t testing.TB, path string) *puppet {
	t.Helper()
	return newPuppetBy(t, path)
}

// newPuppetBy has another program start the puppet, if one is named.
func newPuppetBy(t testing.TB, path string, by ...string) *puppet {
	t.Helper()
	self, err := os.Executable()
	noError(t, err)
	by = append(by, self)
	p := &puppet{t: t, cmd: exec.Command(by[0], by[1:]...)}
	p.cmd.Env = append(os.Environ(), asPuppet+"="+path, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out := errtest.Must(p.cmd.StdoutPipe())(t)
	p.out = bufio.NewReader(out)
	noError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

// send tells the puppet to do something.
func (p *puppet) send(command string, args ...any) {
	p.t.Helper()
	errtest.Must(fmt.Fprintln(p.in, append([]any{command}, args...)...))(p.t)
}

// answer waits until it is done.
func (p *puppet) answer() string {
	p.t.Helper()
	line := make(chan string, 1)
	go func() {
		s, _ := p.out.ReadString('\n')
		line <- strings.TrimSpace(s)
	}()
	select {
	case s := <-line:
		return s
	case <-time.After(limit):
		p.t.Fatal("the other process does not answer")
		return ""
	}
}

func (p *puppet) do(command string, args ...any) string {
	p.t.Helper()
	p.send(command, args...)
	return p.answer()
}

func (p *puppet) must(want, command string, args ...any) {
	p.t.Helper()
	if got := p.do(command, args...); got != want {
		p.t.Fatalf("%s in another process: %q, not %q", command, got, want)
	}
}

func (p *puppet) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// stop has the process stop itself, so that it is at a known place.
func (p *puppet) stop(command string) {
	p.t.Helper()
	p.send(command)
	var ws syscall.WaitStatus
	for !ws.Stopped() {
		if _, err := syscall.Wait4(p.cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil && err != syscall.EINTR {
			p.t.Fatal(err)
		}
	}
}

func (p *puppet) resume() {
	p.t.Helper()
	noError(p.t, p.cmd.Process.Signal(syscall.SIGCONT))
	p.send("go")
}

func servePuppet(path string) int {
	if os.Getenv(asNobody) != "" && os.Getuid() == 0 {
		const nobody = 65534
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	ctx := context.Background()
	d, err := sqlitelock.New(ctx, path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var s *driver.Opened
	tickets := map[string]driver.Ticket{}
	known := func() (all []driver.Ticket) {
		for _, t := range tickets {
			all = append(all, t)
		}
		return all
	}
	say := func(text string, err error) {
		for _, e := range []error{driver.ErrGone, driver.ErrSession, driver.ErrBusy} {
			if errors.Is(err, e) {
				err = e
			}
		}
		if err != nil {
			text = err.Error()
		}
		fmt.Println(strings.ReplaceAll(text, "\n", " "))
	}
	in := bufio.NewScanner(os.Stdin)
	// stop may return before the signal has reached this thread, so it waits for
	// the word as well.
	stop := func() {
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		in.Scan()
	}
	for in.Scan() {
		var command, arg, arg2 string
		fmt.Sscan(in.Text(), &command, &arg, &arg2)
		switch command {
		case "open":
			ttl, _ := time.ParseDuration(arg)
			s, err = d.Open(ctx, driver.SessionOptions{TTL: ttl})
			say("open", err)
		case "join":
			r := mutex(arg)
			r.Hold, _ = time.ParseDuration(arg2)
			t, err := s.Join(ctx, r)
			tickets[arg] = t
			say(map[bool]string{true: "held", false: "waits"}[t.Held], err)
		case "await":
			t, err := s.Await(ctx, tickets[arg])
			say(map[bool]string{true: "held", false: "waits"}[t.Held], err)
		case "leave":
			say("left", s.Leave(ctx, tickets[arg], true))
		case "keep":
			d, _ := time.ParseDuration(arg2)
			say("kept", s.Keep(ctx, tickets[arg], d))
		case "swap":
			_, err := d.Swap(ctx, driver.Swap{ID: newID(), Name: arg + "/value", Value: []byte("x")})
			say("swapped", err)
		case "raise":
			say("raised", d.Raise(ctx, arg, 1<<20))
		case "renew":
			_, err := s.Renew(ctx, known())
			say("renewed", err)
		case "stop":
			stop()
			say("resumed", nil)
		case "stop-in-turn":
			f, err := os.OpenFile(path+"-interlock/turn", os.O_RDWR, 0)
			if err == nil {
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
			}
			stop()
			f.Close()
			say("resumed", err)
		case "stop-in-transaction":
			say("resumed", stopInTransaction(path, stop))
		case "cycle":
			say("done", cycle(d, arg, arg2, func() error { return nil }))
		case "beside": // another library
			say("done", cycle(d, arg, arg2, func() error { return secondLibrary(path) }))
		case "close":
			say("closed", d.Close())
		default:
			say("", fmt.Errorf("unknown command %q", command))
		}
	}
	return 0
}

func stopInTransaction(path string, stop func()) error {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, sql := range []string{"BEGIN IMMEDIATE", "UPDATE file SET floor = floor", "", "COMMIT"} {
		if sql == "" {
			stop()
			continue
		}
		stmt, err := c.Prepare(sql)
		if err != nil {
			return err
		}
		if _, err := stmt.Step(); err != nil {
			return err
		}
	}
	return nil
}

// cycle acquires and releases for ever. While it holds, it has a line in the log
// for the token that is not followed by its end. In between it does something else.
func cycle(d driver.Driver, queue, log string, between func() error) error {
	ctx := context.Background()
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Hour})
	if err != nil {
		return err
	}
	for {
		t, err := s.Join(ctx, mutex(queue))
		if err == nil {
			t, err = s.Await(ctx, t)
		}
		if err != nil {
			return err
		}
		aside(ctx, s)
		// Each in a line of its own, also after one that somebody who was killed has not ended.
		fmt.Fprintf(f, "\n%d %d begin", t.Token, os.Getpid())
		fmt.Fprintf(f, "\n%d %d end", t.Token, os.Getpid())
		if err := s.Leave(ctx, t, true); err != nil {
			return err
		}
		if err := between(); err != nil {
			return err
		}
	}
}

// aside does a bit of everything else, to be killed in the middle of it.
func aside(ctx context.Context, s *driver.Opened) {
	r := driver.Request{ID: newID(), Queue: "rw", Kind: driver.RWMutex, Units: 1, Capacity: driver.RWCapacity}
	if rand.N(3) == 0 {
		r.Units = r.Capacity
	}
	if rand.N(8) == 0 {
		r.Hold = 20 * time.Millisecond
	}
	t, err := s.Join(ctx, r)
	if err != nil {
		return
	}
	switch rand.N(6) {
	case 0:
		_ = s.Shrink(ctx, t, 1)
	case 1:
		if t.Held {
			_ = s.Keep(ctx, t, 20*time.Millisecond)
			return
		}
	case 2:
		_, _ = s.Renew(ctx, nil) // it is a stray
	}
	_ = s.Leave(ctx, t, rand.N(2) == 0)
}
