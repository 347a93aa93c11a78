//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// buildPlain builds the test binary as users have the command, for tests that
// start it many times: the race detector would make each start slow. Nor has it cgo,
// so that what it consists of may have been built for other reasons.
var buildPlain = sync.OnceValue(func() error {
	path := filepath.Join(binDir, "interlock")
	build := exec.Command("go", "test", "-c", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Symlink(path, filepath.Join(binDir, "job"))
})

// plainFolder is the folder in which that is.
func plainFolder(t *testing.T) string {
	t.Helper()
	errtest.None(t, buildPlain())
	return binDir
}

// cli is the command, on a backend of the test's own.
func cli(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(filepath.Join(plainFolder(t), "interlock"), args...)
	c.Env = append(os.Environ(), "INTERLOCK_URL="+url, "PATH="+binDir+":"+os.Getenv("PATH"))
	c.Stderr = &bytes.Buffer{}
	return c
}

func testURL(t *testing.T, options string) string {
	t.Helper()
	return "sqlite:" + filepath.ToSlash(filepath.Join(t.TempDir(), "locks.db")) + options
}

// steps is how many each of eight processes makes.
const steps = 16

func TestReadModifyWriteUnderRunLosesNothing(t *testing.T) {
	t.Parallel()
	const processes = 8
	url, file := testURL(t, ""), filepath.Join(t.TempDir(), "number")
	errtest.None(t, os.WriteFile(file, []byte("0"), 0o600))
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			for range steps {
				c := cli(t, url, "run", "number", "--", "job", "step", file)
				if err := c.Run(); err != nil {
					t.Errorf("%v: %s", err, c.Stderr)
					return
				}
			}
		})
	}
	wg.Wait()
	b := errtest.Must(os.ReadFile(file))(t)
	if want := strconv.Itoa(processes * steps); string(b) != want {
		t.Errorf("the number is %s, not %s", b, want)
	}
}

func TestNeverMoreJobsThanPermitsAndAllPermitsAreUsed(t *testing.T) {
	t.Parallel()
	const processes, permits = 8, 4
	url, dir := testURL(t, ""), t.TempDir()
	var mu sync.Mutex
	most := 0
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			for range steps / 2 {
				c := cli(t, url, "run", "--permits", fmt.Sprint(permits), "stay", "--", "job", "stay", dir, fmt.Sprint(permits))
				out, err := c.Output()
				if err != nil {
					t.Errorf("%v: %s", err, c.Stderr)
					return
				}
				mu.Lock()
				for s := range strings.FieldsSeq(string(out)) {
					n, _ := strconv.Atoi(s)
					most = max(most, n)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if most != permits {
		t.Errorf("at most %d jobs ran at once, not %d", most, permits)
	}
}
