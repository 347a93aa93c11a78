//go:build unix

package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: no error that passes ends a call that waits, neither one that it begins with
// nor one that comes while it waits: it goes on once the file can be used again.
func TestErrorsThatPass(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	patience = 20 * time.Millisecond
	cannot := make(chan struct{}) // interrupts everything
	close(cannot)
	interrupt := func(d *client, why <-chan struct{}) {
		alone(t, d, func() { d.store.file.write.SetInterrupt(why); d.store.file.read.SetInterrupt(why) })
	}
	for name, trouble := range map[string]func(t *testing.T, d *client) (over func()){
		"reading and writing fail": func(_ *testing.T, d *client) func() {
			interrupt(d, cannot)
			return func() { interrupt(d, nil) }
		},
		"another program has locked the file for longer than anybody waits": func(t *testing.T, d *client) func() {
			c := errtest.Must(sqlite.OpenConn(d.store.file.path, sqlite.OpenReadWrite))(t)
			noError(t, (conn{c}).exec("BEGIN IMMEDIATE"))
			return func() { c.Close() }
		},
		"the way to the file is barred": func(t *testing.T, d *client) func() {
			dir := filepath.Dir(d.store.file.path)
			// Nobody looks between two steps, where there is no file at all: that would be for good.
			at := func(steps func() error) {
				alone(t, d, func() {
					errtest.Is(t, steps(), nil)
				})
			}
			at(func() error { return errors.Join(os.Rename(dir, dir+" away"), os.Symlink(dir, dir)) })
			return func() {
				at(func() error { return errors.Join(os.Remove(dir), os.Rename(dir+" away", dir)) })
			}
		},
		"the disk is full": func(t *testing.T, d *client) func() {
			limited := func(pages int64) {
				alone(t, d, func() {
					if err := d.store.file.write.one(fmt.Sprintf("PRAGMA max_page_count = %d", pages), func(*sqlite.Stmt) {}); err != nil {
						t.Error(err)
					}
				})
			}
			limited(count(t, d, "PRAGMA page_count"))
			for n := 0; ; n++ {
				err := d.store.change(t.Context(), false, func(x *tx) error {
					return x.exec("INSERT INTO swap(id, at, version) VALUES (?, 1, 1)", fmt.Sprint(n))
				})
				if full(err) {
					return func() { limited(1 << 30) }
				}
				noError(t, err)
			}
		},
	} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after the call has begun: %v", name, begun), func(t *testing.T) {
				d := start(t, newFile(t))
				s, other := begin(t, d), start(t, d.store.file.path)
				writer := begin(t, other)
				tk := s.mustJoin(t, mutex("held"), true)
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				done := make(chan error, 2)
				calls := []func() error{
					func() error { _, err := d.Watch(ctx, "a/value", 0); return err },
					func() error {
						q, err := d.Follow(ctx, "q", "empty")
						if err == nil && len(q.Members) != 1 {
							err = errors.New("nobody has joined")
						}
						return err
					},
				}
				call := func() {
					for _, c := range calls {
						go func() { done <- c() }()
					}
				}
				if begun {
					call()
					for count(t, other, "SELECT (SELECT count(*) FROM cell WHERE followers <> '') + (SELECT count(*) FROM queue WHERE name = 'q')") < 2 {
						time.Sleep(time.Millisecond)
					}
				}
				over := trouble(t, d)
				held := make(chan error, 1)
				go func() { _, err := s.Await(ctx, tk); held <- err }()
				if !begun {
					call()
				}
				for before := d.Exchanges(); d.Exchanges() < before+12; time.Sleep(time.Millisecond) {
					d.store.hear(exchange.Event{Type: exchange.Wake})
					select {
					case err := <-done:
						over()
						t.Fatalf("a call returns before anything has happened: %v", err)
					default:
					}
				}
				over()
				swap, join := driver.Swap{ID: exchange.NewID(), Name: "a/value"}, mutex("q")
				again := func(call func() error) { // as all callers do: nobody has patience here
					for err := call(); err != nil; err = call() {
						if driver.IsPermanent(err) || ctx.Err() != nil {
							t.Fatal(err)
						}
						join.Retry = true
					}
				}
				again(func() error { _, err := other.Swap(ctx, swap); return err })
				again(func() error { _, err := writer.Join(ctx, join); return err })
				errtest.Is(t, errors.Join(<-done, <-done, <-held), nil)
			})
		}
	}
}
