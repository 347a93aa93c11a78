package follow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/follow"
)

var errClosed = driver.Permanent(errors.New("closed"))

// client has a cell and a queue, of which the server sends word.
type client struct {
	*follow.Topics
	version atomic.Uint64
	looks   atomic.Uint64
	fails   atomic.Pointer[error]
	close   func()
}

func newClient() *client {
	c := &client{}
	closed := make(chan struct{})
	c.close = func() { close(closed) }
	c.Topics = follow.New(func(ctx context.Context) error {
		select {
		case <-closed:
			return errClosed
		default:
			return ctx.Err()
		}
	}, closed)
	return c
}

func (c *client) fail(err error) { c.fails.Store(&err) }
func (c *client) heal()          { c.fails.Store(nil) }

func (c *client) load(*follow.Topic) (driver.Cell, error) {
	c.looks.Add(1)
	if err := c.fails.Load(); err != nil {
		return driver.Cell{}, *err
	}
	return driver.Cell{Version: c.version.Load()}, nil
}

// watch begins to wait for another version than 0 and returns once it waits.
func (c *client) watch(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		got, err := c.Cell(ctx, "c", 0, c.load)
		if err == nil && got.Version != c.version.Load() {
			err = errors.New("not the last version")
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

func ended(t *testing.T, done <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		return err
	default:
		t.Fatal("it still waits")
		return nil
	}
}

func waits(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("it does not wait any more: %v", err)
	default:
	}
}

// Promise: whoever waits is woken by word of a change, by name or number, and looks
// only then.
func TestWordOfAChangeWakes(t *testing.T) {
	for how, tell := range map[string]func(*client){
		"name": func(c *client) { c.CellChanged("c") },
		"all":  func(c *client) { c.AllChanged() },
		"number": func(c *client) {
			p, release := c.Topic("cell c")
			release()
			c.Changed(p.Number)
		},
	} {
		bubble.Run(t, func(t *testing.T) {
			c := newClient()
			one, two := c.watch(t.Context()), c.watch(t.Context())
			c.CellChanged("d")
			c.QueueChanged("c")
			if n := c.looks.Load(); n != 2 {
				t.Errorf("two calls that wait have looked %d times", n)
			}
			tell(c) // of a change that they are not to be shown
			waits(t, one)
			waits(t, two)
			c.version.Store(1)
			tell(c)
			if err := errors.Join(ended(t, one), ended(t, two)); err != nil {
				t.Errorf("told by %s: %v", how, err)
			}
		})
	}
}

// Promise: a change while the call looks is not missed.
func TestAChangeDuringALook(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c := newClient()
		began := time.Now()
		got, err := c.Cell(t.Context(), "c", 0, func(p *follow.Topic) (driver.Cell, error) {
			found, _ := c.load(p)
			if c.version.CompareAndSwap(0, 1) {
				c.CellChanged("c")
			}
			return found, nil
		})
		if err != nil || got.Version != 1 || time.Since(began) != 0 {
			t.Errorf("after %v: %+v, %v", time.Since(began), got, err)
		}
	})
}

// Promise: word that was lost is made up for by a look now and then.
func TestLostWord(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c := newClient()
		done := c.watch(t.Context())
		c.version.Store(1)
		time.Sleep(time.Minute)
		errtest.Is(t, ended(t, done), nil)
	})
}

// Promise: an error that passes ends no call that waits; it looks again, less and less
// often.
func TestAnErrorThatPasses(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c := newClient()
		c.fail(errors.New("connection lost"))
		done := c.watch(t.Context())
		time.Sleep(time.Minute)
		waits(t, done)
		if n := c.looks.Load(); n < 30 || n > 130 {
			t.Errorf("%d looks in a minute in which all failed", n)
		}
		c.heal()
		time.Sleep(2 * time.Second)
		waits(t, done)
		c.version.Store(1)
		c.CellChanged("c")
		errtest.Is(t, ended(t, done), nil)
	})
}

// Promise: an error that will be the same next time ends the call, as the end of its
// context and the close of the client do, also between tries.
func TestWhatEndsACall(t *testing.T) {
	for name, state := range map[string]error{"waiting": nil, "trying again": errors.New("connection lost")} {
		bubble.Run(t, func(t *testing.T) {
			c := newClient()
			if state != nil {
				c.fail(state)
			}
			ctx, cancel := context.WithCancel(t.Context())
			one, two := c.watch(ctx), c.watch(t.Context())
			time.Sleep(10 * time.Second)
			cancel()
			if err := ended(t, one); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, cancelled: %v", name, err)
			}
			waits(t, two)
			c.close()
			if err := ended(t, two); !errors.Is(err, errClosed) {
				t.Errorf("%s, closed: %v", name, err)
			}
		})
	}
	bubble.Run(t, func(t *testing.T) {
		c := newClient()
		c.fail(driver.Permanent(errors.New("not allowed")))
		if err := ended(t, c.watch(t.Context())); !driver.IsPermanent(err) {
			t.Errorf("for good: %v", err)
		}
	})
}

// Promise: a queue is read again when a ticket may have ended, since nobody sends word
// of a death, and not all the time if reading it takes long.
func TestAQueueIsReadWhenATicketEnds(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c := newClient()
		began := time.Now()
		var reads []time.Duration
		q, err := c.Queue(t.Context(), "q", "full", func(*follow.Topic) (driver.Queue, error) {
			reads = append(reads, time.Since(began))
			time.Sleep(100 * time.Millisecond)
			c.QueueChanged("q") // it changes all the time
			left := 500*time.Millisecond - time.Since(began)
			if left < 0 {
				return driver.Queue{Version: "empty"}, nil
			}
			return driver.Queue{Version: "full", Members: []driver.Member{{Left: left}}}, nil
		})
		if err != nil || q.Version != "empty" || len(reads) != 3 {
			t.Errorf("read at %v: %+v, %v", reads, q, err)
		}
		reads = nil
		began = time.Now()
		_, _ = c.Queue(t.Context(), "q", "full", func(*follow.Topic) (driver.Queue, error) {
			if len(reads) > 0 {
				return driver.Queue{Version: "empty"}, nil
			}
			reads = append(reads, 0)
			return driver.Queue{Version: "full", Members: []driver.Member{{Left: 500 * time.Millisecond}}}, nil
		})
		if took := time.Since(began); took < 500*time.Millisecond || took > 600*time.Millisecond {
			t.Errorf("a ticket that ends after 500ms was missed after %v", took)
		}
	})
}

// Promise: topics that nobody uses are forgotten, but for as many as are to be kept.
func TestTopicsAreForgotten(t *testing.T) {
	for _, keep := range []int{0, 1} {
		c := newClient()
		c.Keep = keep
		var numbers []uint64
		for range 3 {
			p, release := c.Topic("one")
			numbers = append(numbers, p.Number)
			release()
		}
		if same := numbers[0] == numbers[2]; same != (keep == 1) {
			t.Errorf("with %d to be kept, one topic has the numbers %v", keep, numbers)
		}
	}
}

// Promise: the version of a queue differs with what it shows, and not with renewals.
func TestVersion(t *testing.T) {
	at := time.UnixMicro(1e15)
	queue := func(change func(*driver.Member)) driver.Queue {
		m := driver.Member{ID: "a", Units: 1, Token: 7, Left: time.Second}
		change(&m)
		return driver.Queue{Kind: driver.Semaphore, Capacity: 3, Members: []driver.Member{m}}
	}
	version := func(q driver.Queue, at time.Time) string {
		return follow.Version(q, func(i int) time.Time { return at.Add(q.Members[i].Left) })
	}
	first := version(queue(func(*driver.Member) {}), at)
	if renewed := version(queue(func(m *driver.Member) { m.Left *= 2 }), at.Add(time.Hour)); renewed != first {
		t.Error("a renewal is another version")
	}
	fixed := func(m *driver.Member) { m.Fixed = true }
	seen := map[string]string{first: "first", "empty": "empty"}
	for name, q := range map[string]driver.Queue{
		"ID":    queue(func(m *driver.Member) { m.ID = "b" }),
		"units": queue(func(m *driver.Member) { m.Units = 2 }),
		"token": queue(func(m *driver.Member) { m.Token = 8 }),
		"fixed": queue(fixed),
		"end":   queue(func(m *driver.Member) { fixed(m); m.Left = time.Minute }),
	} {
		v := version(q, at)
		if other, ok := seen[v]; ok {
			t.Errorf("another %s is the same version as %s", name, other)
		}
		seen[v] = name
	}
	if v := version(driver.Queue{Kind: driver.Mutex}, at); v != "empty" {
		t.Errorf("a queue without tickets has the version %q", v)
	}
	if a, b := version(queue(fixed), at), version(queue(func(m *driver.Member) { fixed(m); m.Left -= time.Millisecond }), at.Add(time.Millisecond)); a != b {
		t.Error("the same fixed end, read later, is another version")
	}
}
