//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/examples/flashsale"
)

// The test binary is the command itself when it is started as interlock, as a
// guard, or as a worker of the flash sale.
func TestMain(m *testing.M) {
	guard.Main()
	flashsale.WorkerMain()
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
	return t.m.Run()
}

// Each script is a user's session with the shell; the file's name says what it
// shows.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("INTERLOCK_URL", "sqlite:"+filepath.ToSlash(filepath.Join(e.WorkDir, "locks.db"))+"?ttl=2s")
			e.Setenv("HOME", e.WorkDir)
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
