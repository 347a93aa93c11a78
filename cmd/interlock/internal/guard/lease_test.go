//go:build linux

package guard_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
)

// longTTL is one whose jobs are killed as long before the deadline as any, a second:
// so long may a machine pause at that moment.
const longTTL = 20 * time.Second

// lease is a folder through which a test tells a program how long its lease still lasts,
// once the job does what the test wants, and the program tells its deadline.
type lease string

func newLease(t *testing.T) lease { return lease(t.TempDir()) }

// ends lets the lease end in this time, and returns its deadline.
func (l lease) ends(t *testing.T, in time.Duration) (deadline driver.Instant) {
	t.Helper()
	l.put("left", int64(in))
	busy.Until(t, "the program sets its deadline", func() bool {
		n, ok := l.get("deadline")
		deadline = driver.Instant(n)
		return ok
	})
	return deadline
}

func (l lease) left() (time.Duration, bool) {
	n, ok := l.get("left")
	return time.Duration(n), ok
}

func (l lease) tell(deadline driver.Instant) { l.put("deadline", int64(deadline)) }

func (l lease) put(name string, n int64) {
	file := filepath.Join(string(l), name)
	os.WriteFile(file+".new", strconv.AppendInt(nil, n, 10), 0o600)
	os.Rename(file+".new", file)
}

func (l lease) get(name string) (int64, bool) {
	if l == "" {
		return 0, false
	}
	data, err := os.ReadFile(filepath.Join(string(l), name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	return n, err == nil
}
