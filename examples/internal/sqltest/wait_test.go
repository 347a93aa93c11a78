package sqltest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
)

var (
	noError = errtest.None
	isErr   = errtest.Is
)

// patience bounds each wait for something that must happen, however busy the machine is.
const patience = 2 * time.Minute

// waitFor waits until all goroutines of a group have ended.
func waitFor(t *testing.T, what string, all *sync.WaitGroup) {
	t.Helper()
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	errtest.Received(t, what, ended)
}

// watch ends a test that hangs in a call of its own, with its name and all goroutines,
// long before the limit of the package. Its result ends that.
func watch(t *testing.T) (stop func() bool) {
	return time.AfterFunc(2*patience, func() { panic(fmt.Sprintf("%s has hung for %v", t.Name(), 2*patience)) }).Stop
}

// errOf is the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }
