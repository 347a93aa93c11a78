package etcdlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a wall clock that is set, be it of the leader, of another member, of a holder or of a waiter, ends no lock,
// lets no second one hold, and keeps no lock of a dead client. Before 3.5, a leader whose clock is set back after the
// last heartbeat keeps such a lock, and the next leader does not.
func TestWallClocksThatAreSet(t *testing.T) {
	t.Parallel()
	onBoth(t, "", func(t *testing.T, of etcdtest.Option) {
		const ttl = 3 * time.Second
		c := etcdtest.StartCluster(t, 3, of)
		ctx := limited(t)
		url := "etcd://" + c.Endpoints()
		a := open(t, url, interlock.TTL(ttl))
		mine := errtest.Must(a.Mutex("mine").Acquire(ctx))(t)
		holder := startClient(t, url, ttl)
		holder.hears("held")
		waiter := startClient(t, url, ttl)
		inLine := func() interlock.Queue {
			q := errtest.Must(a.Admin().Queue(ctx, "m"))(t)
			return q
		}
		busy.Until(t, "it waits", func() bool { return len(inLine().Waiters) == 1 })
		token := inLine().Holders[0].Token

		leader := c.Leader()
		others := c.Others(leader)
		for _, ahead := range []time.Duration{30 * time.Second, time.Hour, -30 * time.Second, -time.Hour} {
			leader.SetClock(t, ahead)
			others[0].SetClock(t, -ahead)
			holder.setClock(-ahead)
			waiter.setClock(ahead)
			from := time.Now()
			// The leader looks every half second for leases that have ended.
			busy.Until(t, "it is renewed", func() bool {
				return mine.Deadline().After(from.Add(ttl+700*time.Millisecond)) || mine.Err() != nil
			})
			noError(t, mine.Err())
			if q := inLine(); len(q.Holders) != 1 || q.Holders[0].Token != token || len(q.Waiters) != 1 {
				t.Fatalf("the clock of the leader is %v ahead: %+v", ahead, q)
			}
		}
		holder.kill()
		leader.SetClock(t, -2*time.Hour)
		if beforeLeasesWereSteady(t, leader) {
			leader.Kill()
		}
		waiter.hears("held")
	})
}

// beforeLeasesWereSteady says whether a server puts leases in the order of its wall clock.
func beforeLeasesWereSteady(t *testing.T, s *etcdtest.Server) bool {
	t.Helper()
	status := errtest.Must(raw(t, s.Addr).Status(limited(t), s.Addr))(t)
	return status.Version < "3.5" // there was no 3.10
}

// client is another process, which acquires the lock m.
type client struct {
	t    *testing.T
	cmd  *exec.Cmd
	says chan string
}

const clientURL, clientTTL = "ETCDLOCK_TEST_URL", "ETCDLOCK_TEST_TTL"

func init() {
	if url := os.Getenv(clientURL); url != "" {
		fmt.Println(play(context.Background(), url))
		os.Exit(0)
	}
}

func play(ctx context.Context, url string) error {
	ttl, err := time.ParseDuration(os.Getenv(clientTTL))
	if err != nil {
		return err
	}
	c, err := interlock.Open(ctx, url, interlock.TTL(ttl))
	if err != nil {
		return err
	}
	lease, err := c.Mutex("m").Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held")
	<-lease.Done()
	return lease.Err()
}

func startClient(t *testing.T, url string, ttl time.Duration) *client {
	t.Helper()
	c := &client{t: t, cmd: exec.Command(os.Args[0]), says: make(chan string, 2)}
	c.cmd.Env = append(os.Environ(), clientURL+"="+url, clientTTL+"="+ttl.String())
	c.cmd.Stderr = os.Stderr
	out := errtest.Must(c.cmd.StdoutPipe())(t)
	p := errtest.Must(testserver.Begin(c.cmd))(t)
	t.Cleanup(p.Kill)
	go c.listen(out)
	return c
}

func (c *client) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		c.says <- lines.Text()
	}
}

func (c *client) hears(want string) {
	c.t.Helper()
	select {
	case got := <-c.says:
		if got != want {
			c.t.Fatalf("a client says %q, not %q", got, want)
		}
	case <-time.After(bound()):
		c.t.Fatalf("a client does not say %q", want)
	}
}

func (c *client) setClock(ahead time.Duration) {
	c.t.Helper()
	if err := testserver.SetWallClock(c.cmd.Process.Pid, ahead); !errors.Is(err, errors.ErrUnsupported) {
		noError(c.t, err)
	}
}

func (c *client) kill() {
	c.t.Helper()
	noError(c.t, c.cmd.Process.Kill())
}
