//go:build unix

package sqltest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/fence/fencehttp"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: the store of a table runs nothing under a smaller token, has a token stored before the
// work begins, and accepts no larger one before it has ended.
func TestTheStoreOfATable(t *testing.T) {
	each(t, databases, func(t *testing.T, d *instance) {
		ctx := t.Context()
		tokens, err := fence.NewTable(d.fence, fence.DefaultTable)
		noError(t, err)
		db, other := d.open(t), d.open(t)
		noError(t, tokens.Create(ctx, db))
		store, elsewhere := tokens.Store(db), tokens.Store(other)
		broken := errors.New("broken")
		var ended atomic.Bool
		next := make(chan error, 1)
		err = store.Do(ctx, "a", fence.Token(5), func() error {
			if got := number(t, other, "SELECT token FROM "+fence.DefaultTable+" WHERE resource = 'a'"); got != 5 {
				t.Errorf("while the work is done the token %d is stored, want 5", got)
			}
			go func() {
				next <- elsewhere.Do(ctx, "a", fence.Token(6), func() error {
					if !ended.Load() {
						return errors.New("two are at work")
					}
					return nil
				})
			}()
			d.awaitWaiter(t)
			ended.Store(true)
			return broken
		})
		if err != broken {
			t.Errorf("got %v, want the work's own error", err)
		}
		isErr(t, errtest.Received(t, "the work under the larger token", next), nil)
		err = store.Do(ctx, "a", fence.Token(5), func() error { t.Error("the work was done under a smaller token"); return nil })
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
		isErr(t, store.Do(ctx, "b", fence.Token(5), func() error { return nil }), nil, "another resource")
	}, "CREATE TABLE items (id INTEGER)")
}

// put is a program that holds the lock of the stock, and later sends a request with its token,
// without looking whether it still holds the lock.
func put(args []string) error {
	ctx := context.Background()
	c, err := interlock.Open(ctx, args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	lease, err := c.Mutex("stock").Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("acquired")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		r, err := http.NewRequest(http.MethodPut, args[1], strings.NewReader(lines.Text()))
		if err != nil {
			return err
		}
		if err := fencehttp.Set(r, lease); err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		fmt.Println(resp.Status, fencehttp.Stale(resp))
	}
	return nil
}

// Promise: the request of a process that was stopped for longer than its lease is refused, by each
// server that uses the store.
func TestTheLateRequestOfAStoppedProcessIsRefused(t *testing.T) {
	each(t, []*database{sqlite, postgres, mariadb}, func(t *testing.T, d *instance) {
		ctx := t.Context()
		tokens := errtest.Must(fence.NewTable(d.fence, fence.DefaultTable))(t)
		var served atomic.Int64
		server := func() string {
			db := d.open(t)
			noError(t, tokens.Create(ctx, db))
			guard := fencehttp.Guard{Store: tokens.Store(db)}
			s := httptest.NewServer(guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })))
			t.Cleanup(s.Close)
			return s.URL + "/items/1"
		}
		one, another := server(), server()
		locks := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
		old := start(t, "putter", locks+"?ttl=2s", one)
		old.says("acquired")
		old.tell("98")
		old.says("200 OK <nil>")
		err := stopped(t, old, locks).Mutex("stock").Do(ctx, func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPut, another, strings.NewReader("97"))
			if err != nil {
				return err
			}
			resp, err := (&http.Client{Transport: &fencehttp.Transport{}}).Do(r)
			if err != nil {
				return err
			}
			if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("the next holder: %s, %v", resp.Status, err)
			}
			old.signal(syscall.SIGCONT)
			old.tell("98")
			if got := old.next(); !strings.HasPrefix(got, "412 ") || !strings.Contains(got, fmt.Sprint(interlock.LeaseFrom(ctx).Token())) {
				t.Errorf("the late request: got %q, want it refused because of token %d", got, interlock.LeaseFrom(ctx).Token())
			}
			return nil
		})
		isErr(t, err, nil)
		if n := served.Load(); n != 2 {
			t.Errorf("%d requests were served, want 2", n)
		}
	}, "CREATE TABLE items (id INTEGER)")
}
