//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/filelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
)

// This binary can be another process. The variable says what that does with the lock x of the
// directory that is its argument.
const (
	variable = "FILELOCK_TEST"
	expire   = "expire" // acquires it, says its token, and how the lease has ended
	hold     = "hold"   // acquires it, says its token, and holds until it is killed
	crowd    = "crowd"  // acquires it once in each of many goroutines, and says each token
)

func TestMain(m *testing.M) {
	what := os.Getenv(variable)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := play(what, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(what, dir string) error {
	ctx := context.Background()
	if what == crowd {
		return crowds(ctx, dir)
	}
	c, err := interlock.Open(ctx, "file://"+dir)
	if err != nil {
		return err
	}
	return plays[what](ctx, c.Mutex("x", interlock.StrictOrder()))
}

const lost, evicted = 1, 2

var plays = map[string]func(context.Context, *interlock.Lock) error{
	hold: func(ctx context.Context, l *interlock.Lock) error {
		lease, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		fmt.Println(lease.Token())
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	},
	expire: func(ctx context.Context, l *interlock.Lock) error {
		lease, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		fmt.Println(lease.Token())
		<-lease.Done()
		if errors.Is(lease.Err(), interlock.ErrEvicted) {
			fmt.Println(evicted)
		} else {
			fmt.Println(lost)
		}
		return nil
	},
}

// crowds has many wait at the same time, without the library on top, which would have them come in turns.
func crowds(ctx context.Context, dir string) error {
	d, err := filelock.New(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	o, err := d.Open(ctx, driver.SessionOptions{TTL: time.Hour})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for range perProcess {
		go func() {
			t, err := o.Session.Join(ctx, driver.Request{ID: rand.Text(), Queue: "x", Kind: driver.Mutex, Units: 1, Capacity: 1})
			if err == nil && !t.Held {
				t, err = o.Session.Await(ctx, t)
			}
			if err == nil {
				fmt.Println(t.Token)
				err = o.Session.Leave(ctx, t, true)
			}
			errs <- err
		}()
	}
	for range perProcess {
		if one := <-errs; one != nil {
			err = one
		}
	}
	return err
}

// start starts another process, and returns what it says, once it has said something.
func start(t *testing.T, what, dir string) (*exec.Cmd, *said) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), variable+"="+what)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	s := &said{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
				s.mu.Lock()
				s.tokens = append(s.tokens, n)
				s.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	if what != crowd {
		busy.Until(t, "it holds", func() bool { return len(s.all()) > 0 })
	}
	return cmd, s
}

// said is the tokens that another process has said.
type said struct {
	mu     sync.Mutex
	tokens []uint64
}

func (s *said) all() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

const perProcess = 125

// Promise: a thousand waiters in eight processes are all served, each with a token of its own.
func TestAThousandWaitersInEightProcesses(t *testing.T) {
	dir := newDir(t)
	c := open(t, dir)
	first := acquire(t, c.Mutex("x"))
	var all []*said
	for range 8 {
		_, s := start(t, crowd, dir)
		all = append(all, s)
	}
	within(t, 10*patience, "they wait", func() bool {
		q, err := c.Admin().Queue(t.Context(), "x")
		ok(t, err)
		return len(q.Waiters) == 8*perProcess
	})
	ok(t, first.Release())
	within(t, 10*patience, "all are served", func() bool {
		n := 0
		for _, s := range all {
			n += len(s.all())
		}
		return n == 8*perProcess
	})
	seen := map[uint64]bool{}
	for _, s := range all {
		for _, token := range s.all() {
			if seen[token] {
				t.Errorf("token %d is granted twice", token)
			}
			seen[token] = true
		}
	}
}
