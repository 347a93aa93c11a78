package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/lab/check"
	"github.com/interlock-go/interlock/lab/report"
	"github.com/interlock-go/interlock/lab/run"
	"github.com/interlock-go/interlock/lab/worker"
)

func TestMain(m *testing.M) {
	worker.Main()
	os.Exit(m.Run())
}

// do runs for a short time, and returns what was found.
func do(t *testing.T, o run.Options) *run.Report {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab-") // short enough for sockets, and open to servers that run as another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	o.Dir, o.Workers, o.Seed = filepath.Join(dir, o.Backend), 3, uint64(time.Now().UnixNano())%1_000_000
	r, err := run.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Promise: a short run with all faults keeps every promise, on a backend of each kind.
func TestShortRuns(t *testing.T) {
	for backend, faults := range map[string][]string{
		"sqlite": nil, "file": nil, "etcd": nil, "mariadb": nil, "quorum3": nil,
		"redis": {"kill", "stop", "cut", "reset", "deaf", "evict", "connections", "scripts", "server-kill"},
	} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			o := run.Options{Backend: backend, Faults: faults, For: 2 * time.Second, Settle: 200 * time.Millisecond}
			if backend == "redis" { // where no other test of the tree has these faults beside others
				o.For *= 2
			}
			r := do(t, o)
			var text strings.Builder
			report.Text(&text, r)
			t.Log(text.String())
			if len(r.Violations) > 0 {
				t.Error("promises were not kept")
			}
			if r.Grants == 0 {
				t.Error("nothing was granted")
			}
		})
	}
}

// Promise: a broken driver is caught in processes on a real backend, too, and the page shows it.
func TestABrokenDriverIsCaught(t *testing.T) {
	t.Parallel()
	r := do(t, run.Options{Backend: "sqlite", For: time.Second, Settle: time.Millisecond, Broken: "token",
		Workloads: []string{"mutex"}, Faults: []string{"kill"}})
	if len(r.Violations) == 0 || r.Violations[0].Promise != check.Order && r.Violations[0].Promise != check.Tokens {
		t.Fatalf("tokens that are counted in memory: %+v", r.Violations)
	}
	path := filepath.Join(r.Dir, "report.html")
	if err := report.Page(path, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{check.Tokens, "mutex/all", "-seed"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
}
