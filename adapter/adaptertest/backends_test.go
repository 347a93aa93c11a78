package adaptertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
)

var redis = testserver.Lender[*redistest.Server]{
	Run:   func(dir string) (*redistest.Server, error) { return redistest.Run(dir) },
	Clean: func(s *redistest.Server) error { _, err := s.Do("FLUSHALL"); return err },
}

func TestMain(m *testing.M) {
	if role := os.Getenv(asHolder); role != "" {
		fmt.Println(holders[role](os.Getenv(asHolder + "_URL")))
		os.Exit(1)
	}
	os.Exit(redis.Around(m).Run())
}

// each runs a test over Redis and over SQLite.
func each(t *testing.T, test func(t *testing.T, url string)) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redis.Lend(t).URL())
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "locks.db"))
	})
}

// instance is one of several that share a backend, with a client of its own.
type instance struct {
	*interlock.Client
	losses, grants atomic.Int64
}

// open starts an instance. Its leases are not lost because the machine is busy.
func open(t *testing.T, url string) *instance {
	t.Helper()
	i := &instance{}
	i.Client = errtest.Must(interlock.Open(t.Context(), url, interlock.TTL(time.Minute),
		interlock.Observe(func(_ context.Context, e interlock.Event) {
			switch e.Kind {
			case interlock.EventLost:
				i.losses.Add(1)
			case interlock.EventAcquired, interlock.EventHandedOver:
				i.grants.Add(1)
			}
		})))(t)
	t.Cleanup(func() { i.Close() })
	return i
}

// loses takes a lock away from its holder, the instance, which knows it when loses returns. With force another can have
// the lock then, else when the holder has released it.
func (i *instance) loses(ctx context.Context, name string, force bool) error {
	q, err := i.Admin().Queue(ctx, name)
	if err != nil {
		return err
	}
	if len(q.Holders) != 1 {
		return fmt.Errorf("%d hold %s", len(q.Holders), name)
	}
	before := i.losses.Load()
	if err := i.Admin().Evict(ctx, name, q.Holders[0].ID, force); err != nil {
		return err
	}
	return testserver.Until(func() (bool, error) { return i.losses.Load() > before, nil })
}

// granted waits until the instance has had so many grants.
func (i *instance) granted(n int64) error {
	return testserver.Until(func() (bool, error) { return i.grants.Load() >= n, nil })
}

// waiting waits until so many wait for a lock.
func (i *instance) waiting(ctx context.Context, name string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, busy.Bound(time.Minute))
	defer cancel()
	for q, err := range i.Admin().Follow(ctx, name) {
		if err != nil || len(q.Waiters) >= n {
			return err
		}
	}
	return fmt.Errorf("not as many as %d wait for %s", n, name)
}

// free makes sure that a lock can be had at once.
func (i *instance) free(t *testing.T, name string) {
	t.Helper()
	lease, err := i.Mutex(name).TryAcquire(t.Context())
	if err != nil {
		t.Errorf("%s is not free: %v", name, err)
		return
	}
	errtest.None(t, lease.Release())
}

// ended waits until the context of a job ends, and returns why.
func ended(ctx context.Context) error {
	limit := busy.Bound(time.Minute)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(limit):
		return fmt.Errorf("the context has not ended within %v", limit)
	}
}

// asHolder is the variable that makes a process of the test binary one that holds a lock until it is killed.
const asHolder = "ADAPTERTEST_HOLDER"

// holders are the programs of such processes: each calls holds within the lock.
var holders = map[string]func(url string) error{}

const holding = "holding"

func holds() {
	fmt.Println(holding)
	select {}
}

// serves is what such a process does that serves HTTP: it says where.
func serves(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, h)
}

// stop says that such a process stops, and stops it until the test resumes it.
func stop() {
	fmt.Println(holding)
	began := time.Now()
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for time.Since(began) < time.Second/2 { // this thread may go on for a moment
	}
}

// openHolder opens the client of such a process, whose lock passes on soon.
func openHolder(url string) (*interlock.Client, error) {
	return interlock.Open(context.Background(), url, interlock.TTL(time.Second))
}

// startHolder starts a process that holds, and returns how it is killed.
func startHolder(t *testing.T, role, url string) (kill func()) {
	t.Helper()
	p, said := begin(t, role, url)
	if line := errtest.Received(t, "the other process", said); line != holding {
		t.Fatalf("the other process: %s", line)
	}
	return p.Kill
}

// begin starts a process, and returns the lines that it says.
func begin(t *testing.T, role, url string) (*testserver.Process, <-chan string) {
	t.Helper()
	cmd := exec.Command(errtest.Must(os.Executable())(t))
	cmd.Env = append(os.Environ(), asHolder+"="+role, asHolder+"_URL="+url)
	cmd.Stderr = os.Stderr
	out := errtest.Must(cmd.StdoutPipe())(t)
	p := errtest.Must(testserver.Begin(cmd))(t)
	t.Cleanup(p.Kill)
	said := make(chan string, 10)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said <- lines.Text()
		}
	}()
	return p, said
}
