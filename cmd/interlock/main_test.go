//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/cmd/interlock/internal/play"
	"github.com/interlock-go/interlock/examples/flashsale"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// The test binary is the command itself when it is started as interlock, as a
// guard, or as a worker of a demonstration.
func TestMain(m *testing.M) {
	guard.Main(giveBack)
	flashsale.WorkerMain()
	play.WorkerMain()
	deadlockWorker()
	testscript.Main(tests{m}, map[string]func(){"interlock": main, "job": testJob})
}

// tests has a folder for what the tests build.
type tests struct{ m *testing.M }

var binDir string

func (t tests) Run() int {
	var err error
	binDir, err = os.MkdirTemp("", "interlock-test-")
	must(err)
	defer os.RemoveAll(binDir)
	// Under nohup commands ignore, as they should, signals that tests send to them. What
	// is caught here is not ignored there.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	// With -race, each command would sleep for a second before it exits.
	must(os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	// Twice as many tests run beside each other as go test would have, unless the command line
	// says how many: most of the time they wait.
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	return t.m.Run()
}

// Each script is a user's session with the shell; the file's name says what it
// shows. The TTLs are long: with a short one, a job would be lost whenever the machine
// pauses.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "", func(dir string) string {
		return "sqlite:" + filepath.ToSlash(filepath.Join(dir, "locks.db")) + "?ttl=15s"
	}, "testdata/script/*.txtar")
}

// Those in which the backend has a part show the same on a server. The race detector, with which each start of the
// command is slow, has seen them by then.
func TestScriptsOnServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start func(t *testing.T) (before, after string) // what stands in the URL around the name of a script's own
		more  []string
	}{
		"Redis": {start: func(t *testing.T) (string, string) { return redistest.Start(t).URL() + "?ttl=15s&prefix=", "/" }},
		"ZooKeeper": {func(t *testing.T) (string, string) {
			return "zk://" + zktest.Start(t).Addr + "/", "?ttl=30s" // each heartbeat proves only the one before
		}, []string{"permits"}},
		"etcd": {func(t *testing.T) (string, string) {
			return "etcd://" + etcdtest.Start(t).Addr + "/", "?ttl=15s"
		}, []string{"permits"}},
		"PostgreSQL": {start: func(t *testing.T) (string, string) {
			return pgtest.Start(t).URL() + "&ttl=8s&prefix=", "/" // who holds hears of a demand with a heartbeat: the scripts wait for some
		}},
		"MariaDB": {start: func(t *testing.T) (string, string) { return mysqltest.Start(t).URL() + "?ttl=8s&prefix=", "/" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := c.start(t)
			var scripts []string
			for _, script := range append(c.more, "coordinate", "double_barrier", "fixed", "elect", "evict", "run_busy", "run_environment", "run_several") {
				scripts = append(scripts, "testdata/script/"+script+".txtar")
			}
			runScripts(t, plainFolder(t), func(dir string) string { return before + filepath.Base(dir) + after }, scripts...)
		})
	}
}

// runScripts runs the command that is in the folder bin, if that is not "".
func runScripts(t *testing.T, bin string, url func(dir string) string, patterns ...string) {
	var files []string
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil || len(found) == 0 {
			t.Fatalf("no scripts %s: %v", p, err)
		}
		files = append(files, found...)
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(e *testscript.Env) error {
			e.Setenv("INTERLOCK_URL", url(e.WorkDir))
			e.Setenv("HOME", e.WorkDir)
			if bin != "" {
				e.Setenv("PATH", bin+":"+e.Getenv("PATH"))
			}
			e.Setenv("XDG_STATE_HOME", "")
			return os.MkdirAll(filepath.Join(e.WorkDir, "tmp"), 0o700)
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(c string) (bool, error) {
			path, ok := strings.CutPrefix(c, "exists:")
			if !ok {
				return false, fmt.Errorf("unknown condition %q", c)
			}
			_, err := os.Stat(path)
			return err == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "await": await},
	})
}
