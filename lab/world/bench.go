package world

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// A bench stands for a test where servers of the tree's tests are started by a program. What a test would fail with
// is a panic.
type bench struct {
	testing.TB // nil: servers ask for no more than what is here
	dir        string
	n          atomic.Int64
	cleanups   []func()
}

func (b *bench) Helper()             {}
func (b *bench) Failed() bool        { return false }
func (b *bench) Name() string        { return "lab" }
func (b *bench) Log(...any)          {}
func (b *bench) Logf(string, ...any) {}
func (b *bench) Cleanup(f func())    { b.cleanups = append(b.cleanups, f) }
func (b *bench) Fatal(args ...any)   { panic(fmt.Sprint(args...)) }

func (b *bench) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (b *bench) Skip(args ...any)                  { panic(fmt.Sprint(args...)) }
func (b *bench) Skipf(format string, args ...any)  { panic(fmt.Sprintf(format, args...)) }

func (b *bench) TempDir() string {
	dir := filepath.Join(b.dir, fmt.Sprint(b.n.Add(1)))
	must(os.Mkdir(dir, 0o700))
	return dir
}

func (b *bench) close() {
	for i := len(b.cleanups) - 1; i >= 0; i-- {
		b.cleanups[i]()
	}
	_ = os.RemoveAll(b.dir)
}
