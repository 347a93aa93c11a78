package zkpeer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zkpeer"
)

func TestCloseEndsTheSessions(t *testing.T) {
	addr := server(t)
	other := zkpeer.Kazoo(t, addr, zkpeer.LockPatterns("-lock-"))
	for _, p := range []*zkpeer.Peer{
		zkpeer.Curator(t, addr, zkpeer.SessionTimeout(time.Minute)),
		zkpeer.Kazoo(t, addr, zkpeer.SessionTimeout(time.Minute)),
	} {
		ctx := within(t)
		must(t, p.Lock(ctx, "/close"))
		must(t, p.Close())
		free(t, ctx, other.Mutex("/close"))
		if err := p.Lock(ctx, "/close"); err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("Lock after Close: %v", err)
		}
	}
}

func TestEndOfTheContextKills(t *testing.T) {
	both(t, func(t *testing.T, p *zkpeer.Peer, root string) {
		must(t, p.Lock(within(t), root))
		ctx, cancel := context.WithCancel(t.Context())
		waits := later(func() error { return p.Thread("waits").Lock(ctx, root) })
		another := later(func() error { return p.Thread("another").Lock(within(t), root) })
		lined(t, p.Mutex(root), 3)
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("the call whose context has ended: %v", err)
		}
		if err := <-another; err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("another call: %v", err)
		}
		<-p.Done()
	})
}

func TestPeerThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	if _, err := zkpeer.RunCurator(dir, "", zkpeer.SessionTimeout(time.Second)); err == nil {
		t.Error("Curator has found a server")
	}
	_, err := zkpeer.RunKazoo(dir, "127.0.0.1:nonsense")
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("kazoo: %v", err)
	}
}

// A JVM that cannot start says so on its standard output, and that is shown.
func TestLastWords(t *testing.T) {
	_, err := zkpeer.RunCurator(t.TempDir(), server(t), zkpeer.JVM("-XX:Nonsense"))
	if err == nil || !strings.Contains(err.Error(), "Nonsense") {
		t.Errorf("started with a wrong flag: %v", err)
	}
}

// Nothing is left in this process when peers have ended.
func TestNoLeaks(t *testing.T) {
	addr := server(t)
	before := runtime.NumGoroutine()
	for _, start := range []func(string, string, ...zkpeer.Option) (*zkpeer.Peer, error){zkpeer.RunCurator, zkpeer.RunKazoo} {
		p := get[*zkpeer.Peer](t)(start(t.TempDir(), addr))
		must(t, p.Lock(within(t), "/leaks"))
		must(t, p.Close())
	}
	eventually(t, "no goroutines left", func() bool { return runtime.NumGoroutine() <= before })
}

// A test process that is killed takes its peers with it.
func TestNoOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	addr := server(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothing$")
	cmd.Env = append(os.Environ(), "ZKPEER_ORPHAN="+addr, "ZKPEER_DIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	defer kill()
	var curator, kazoo int
	_, err = fmt.Fscan(out, &curator, &kazoo)
	must(t, err)
	kill()
	for _, pid := range []int{curator, kazoo} {
		eventually(t, "the process is gone", func() bool { return !alive(pid) })
	}
}

// alive takes what is only left to be reaped for dead.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestMain(m *testing.M) {
	addr := os.Getenv("ZKPEER_ORPHAN")
	if addr == "" {
		os.Exit(sharing(m.Run))
	}
	dir := os.Getenv("ZKPEER_DIR")
	curator, err1 := zkpeer.RunCurator(dir, addr)
	kazoo, err2 := zkpeer.RunKazoo(dir, addr)
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
