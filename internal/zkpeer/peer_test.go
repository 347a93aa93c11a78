package zkpeer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zkpeer"
	"github.com/interlock-go/interlock/internal/zktest"
)

// What peers do with the recipes of their libraries, the tests of zklock see. Here is what these take for granted.
func TestPeers(t *testing.T) {
	s := zktest.Start(t)
	curator, kazoo := zkpeer.Curator(t, s.Addr), zkpeer.Kazoo(t, s.Addr)
	t.Run("the count is wrong without a lock", func(t *testing.T) { miscounts(t, curator, kazoo) })
	t.Run("contest", func(t *testing.T) { contest(t, curator) })
	for name, p := range map[string]*zkpeer.Peer{"Curator": curator, "kazoo": kazoo} {
		t.Run(name, func(t *testing.T) {
			err := p.Mutex("/never locked").Release()
			if raised, ok := err.(*zkpeer.Error); !ok || raised.Op != "lock.release" {
				t.Errorf("an error of the library: %v", err)
			}
			if err := p.Call(t.Context(), "nonsense", nil, nil); err == nil {
				t.Error("there is no such operation")
			}
			theEndOfTheContextKills(t, p)
		})
	}
}

// miscounts: whoever counts without a lock, or with locks that do not know each other, the sum tells it.
func miscounts(t *testing.T, curator, kazoo *zkpeer.Peer) {
	type counter func(ctx context.Context, file string, n int) error
	ours := func(_ context.Context, file string, n int) (err error) {
		for ; n > 0 && err == nil; n-- {
			err = zkpeer.Increment(file)
		}
		return err
	}
	const n = 100
	for what, counters := range map[string][2]counter{
		"Curator":        {curator.NoLock().Count, curator.Thread("b").NoLock().Count},
		"kazoo":          {kazoo.NoLock().Count, kazoo.Thread("b").NoLock().Count},
		"Curator and Go": {curator.NoLock().Count, ours},
		"two locks":      {curator.Mutex("/both").Count, kazoo.Mutex("/both").Count},
	} {
		busy.Until(t, what+": the sum is wrong", func() bool { // it may be right by chance
			file := filepath.Join(t.TempDir(), "count")
			errtest.None(t, zkpeer.NewCount(file))
			done := make(chan error, len(counters))
			for _, count := range counters {
				go func() { done <- count(within(t), file, n) }()
			}
			for range counters {
				errtest.None(t, <-done)
			}
			return errtest.Must(zkpeer.ReadCount(file))(t) < len(counters)*n
		})
	}
}

func contest(t *testing.T, p *zkpeer.Peer) {
	ctx := within(t)
	for _, shape := range []zkpeer.Shape{
		{Clients: 1, Workers: 1, Names: 1}, {Clients: 1, Workers: 16, Names: 16}, {Clients: 1, Workers: 16, Names: 1}, {Clients: 4, Workers: 4, Names: 1},
	} {
		const long = 100 * time.Millisecond
		c := errtest.Must(p.Contest(ctx, shape, long))(t)
		busy.Until(t, fmt.Sprintf("%+v: everybody has had a turn", shape), func() bool {
			f := errtest.Must(c.Run(ctx, long, 20*time.Second))(t)
			if len(f.Each) != shape.Workers || len(f.Wrong) > 0 || f.Stuck > 0 || f.Took < long {
				t.Fatalf("%+v", f)
			}
			return slices.Min(f.Each) > 0 && (len(f.Gaps) > 0) == (shape.Workers > shape.Names)
		})
		errtest.None(t, c.Close(ctx))
	}
}

func theEndOfTheContextKills(t *testing.T, p *zkpeer.Peer) {
	const path = "/killed"
	errtest.None(t, p.Mutex(path).Acquire(within(t)))
	ctx, cancel := context.WithCancel(t.Context())
	waits, another := make(chan error, 1), make(chan error, 1)
	go func() { waits <- p.Thread("waits").Mutex(path).Acquire(ctx) }()
	go func() { another <- p.Thread("another").Mutex(path).Acquire(within(t)) }()
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("the call whose context has ended: %v", err)
	}
	if err := <-another; err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("another call: %v", err)
	}
}

func TestPeerThatCannotStart(t *testing.T) {
	_, err := zkpeer.RunCurator(t.TempDir(), "", zkpeer.SessionTimeout(time.Second))
	errtest.Says(t, err)
	_, err = zkpeer.RunKazoo(t.TempDir(), "127.0.0.1:nonsense")
	errtest.Says(t, err, "nonsense")
	_, err = zkpeer.ClassPath(t.TempDir())
	errtest.Says(t, err, "apt-get install libcurator-recipes-java libcurator-framework-java")
	t.Setenv("PATH", t.TempDir())
	_, err = zkpeer.Tool("javac")
	errtest.Says(t, err, "apt-get install default-jdk-headless")
}

// A test process that is killed takes its peers with it.
func TestNoOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothing$")
	cmd.Env = append(os.Environ(), orphan+"="+zktest.Start(t).Addr, "TMPDIR="+t.TempDir())
	out := errtest.Must(cmd.StdoutPipe())(t)
	errtest.None(t, cmd.Start())
	var curator, kazoo int
	_, err := fmt.Fscan(out, &curator, &kazoo)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	errtest.None(t, err)
	for _, pid := range []int{curator, kazoo} {
		busy.Until(t, "the process is gone", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(stat), ") Z ") // or only left to be reaped
		})
	}
}

const orphan = "ZKPEER_ORPHAN"

func TestMain(m *testing.M) {
	addr := os.Getenv(orphan)
	if addr == "" {
		os.Exit(m.Run())
	}
	curator, err1 := zkpeer.RunCurator(os.TempDir(), addr)
	kazoo, err2 := zkpeer.RunKazoo(os.TempDir(), addr)
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	// Threads come and go meanwhile, but not those that the peers hang on.
	for range 100 {
		go func() { runtime.LockOSThread() }()
	}
	fmt.Println(curator.Pid(), kazoo.Pid())
	select {}
}

// within is a context that kills the peer of a test that hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
