package fence_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/errtest"
)

// shared is the grant of a reader or of a permit.
type shared uint64

func (s shared) Token() uint64 { return uint64(s) }
func (shared) Exclusive() bool { return false }

// doer is a fence around a function.
type doer func(g fence.Grant, f func() error) error

// doers are the fences that need no database; a further one of the same kind
// stands for another process, where there can be one.
func doers(t *testing.T) map[string]doer {
	var memory fence.Memory
	path := filepath.Join(t.TempDir(), "fence")
	return map[string]doer{
		"Memory": func(g fence.Grant, f func() error) error {
			return memory.Do(t.Context(), "resource", g, f)
		},
		"File": func(g fence.Grant, f func() error) error {
			return fence.NewFile(path).Do(t.Context(), g, f)
		},
	}
}

func TestOnlyTheLargestTokenIsAccepted(t *testing.T) {
	for name, do := range doers(t) {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				token fence.Token
				seen  uint64 // 0: accepted
			}{{5, 0}, {5, 0}, {4, 5}, {6, 0}, {5, 6}, {1 << 62, 0}, {6, 1 << 62}, {math.MaxInt64, 0}, {math.MaxInt64, 0}} {
				done := false
				err := do(c.token, func() error { done = true; return nil })
				var stale *fence.StaleError
				switch {
				case c.seen == 0 && (err != nil || !done):
					t.Errorf("token %d: got %v, done %v; want it done", c.token, err, done)
				case c.seen != 0 && (done || !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || stale.Token != uint64(c.token) || stale.Seen != c.seen):
					t.Errorf("token %d: got %v, done %v; want ErrStale with %d and %d", c.token, err, done, c.token, c.seen)
				}
			}
			for _, g := range []fence.Grant{nil, (*interlock.Lease)(nil), fence.Token(0), fence.Token(math.MaxInt64 + 1), shared(math.MaxInt64)} {
				if err := do(g, func() error { t.Errorf("%#v: done", g); return nil }); !errors.Is(err, fence.ErrNotComparable) {
					t.Errorf("%#v: got %v, want ErrNotComparable", g, err)
				}
			}
		})
	}
}

func TestTheErrorOfTheWorkIsReturned(t *testing.T) {
	for name, do := range doers(t) {
		want := errors.New("disk full")
		if err := do(fence.Token(1), func() error { return want }); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

// What was written under a token was begun before a larger one was accepted.
func TestWritesAreInTheOrderOfTokens(t *testing.T) {
	for name, do := range doers(t) {
		t.Run(name, func(t *testing.T) {
			var one sync.Mutex
			var written []fence.Token
			var writers sync.WaitGroup
			for token := fence.Token(1); token <= 50; token++ {
				writers.Go(func() {
					err := do(token, func() error {
						if !one.TryLock() {
							return errors.New("two write at a time")
						}
						defer one.Unlock()
						written = append(written, token)
						return nil
					})
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
				})
			}
			writers.Wait()
			for i := 1; i < len(written); i++ {
				if written[i] <= written[i-1] {
					t.Fatalf("written in the order %v", written)
				}
			}
			if written[len(written)-1] != 50 {
				t.Errorf("the largest token has not written: %v", written)
			}
		})
	}
}

func TestFileRefusesWhatItDidNotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence")
	f := fence.NewFile(path)
	errtest.None(t, f.Check(t.Context(), fence.Token(7)))
	good := errtest.Must(os.ReadFile(path))(t)
	if n, err := strconv.Atoi(strings.TrimSpace(string(good))); err != nil || n != 7 {
		t.Errorf("the file says %q, want 7", good)
	}
	for _, text := range []string{"x", "7\n", string(good) + "\n", string(good[1:]), " " + string(good[1:]), "-" + string(good[1:]), "+" + string(good[1:]), strings.Repeat("0", 19) + "\n"} {
		errtest.None(t, os.WriteFile(path, []byte(text), 0o600))
		if err := f.Check(t.Context(), fence.Token(math.MaxInt64)); err == nil {
			t.Errorf("%q was accepted", text)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("%q became %q, %v", text, after, err)
		}
	}
	if err := fence.NewFile(filepath.Join(path, "x")).Check(t.Context(), fence.Token(1)); err == nil {
		t.Error("a file in a file: want an error")
	}
}

func TestFileWaitsOnlyAsLongAsItsContext(t *testing.T) {
	f := fence.NewFile(filepath.Join(t.TempDir(), "fence"))
	err := f.Do(t.Context(), fence.Token(1), func() error {
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error, 1)
		go func() { waits <- f.Check(ctx, fence.Token(2)) }()
		cancel()
		errtest.Is(t, <-waits, context.Canceled)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Promise: a file that is open for the work of other processes keeps all other checks waiting until it is closed.
func TestAnOpenFileKeepsOthersWaiting(t *testing.T) {
	f := fence.NewFile(filepath.Join(t.TempDir(), "fence"))
	open := errtest.Must(f.Open(t.Context(), fence.Token(2)))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	errtest.Is(t, f.Check(ctx, fence.Token(3)), context.DeadlineExceeded, "while it is open")
	errtest.None(t, open.Close())
	if file, err := f.Open(t.Context(), fence.Token(1)); !errors.Is(err, fence.ErrStale) || file != nil {
		t.Errorf("a smaller token: got %v, %v, want ErrStale", file, err)
	}
	if err := f.Check(t.Context(), fence.Token(2)); err != nil { // what was refused has left no lock
		t.Error(err)
	}
}

// Promise: a resource that no database can store is refused before one is asked, on one line.
func TestAResourceIsText(t *testing.T) {
	table, err := fence.NewTable(fence.PostgreSQL, fence.DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"", "a\x00b", "a\xffb", strings.Repeat("a", 513)} {
		if err := table.CheckIn(t.Context(), nil, resource, fence.Token(1)); err == nil || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("%.10q: %v", resource, err)
		}
	}
}
