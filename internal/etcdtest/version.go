package etcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Version says which etcd a server is.
type Version string

const (
	// Installed is the one in the PATH, such as Debian's 3.4, or the one that [Variable] names.
	Installed Version = "installed"

	// Current is the one that the module in the folder current requires.
	Current Version = "current"
)

// Variable is the environment variable with the path of the etcd to be tested with, instead of the
// one in the PATH.
const Variable = "ETCDTEST_SERVER"

// Of chooses the version; without it, a server is the installed one.
func Of(v Version) Option { return func(s *settings) { s.version = v } }

// program is the path of etcd.
func program(v Version) (string, error) {
	if v == Current {
		return current()
	}
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	path, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf("install etcd (on Debian: apt-get install etcd-server): %w", err)
	}
	return path, nil
}

// current builds the server that the folder current requires, unless the build cache has it. All who test
// with it build the same, with and without the race detector.
var current = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	build := exec.Command("go", "tool", "-n", "go.etcd.io/etcd/server/v3")
	build.Dir = filepath.Join(filepath.Dir(file), "current")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	build.Stderr = new(strings.Builder)
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build etcd: %w: %s", err, build.Stderr)
	}
	return strings.TrimSpace(string(out)), nil
})
