package sqltest

import (
	"errors"
	"fmt"
	"slices"
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

// isOther fails the test unless there is an error, which is none of the expected ones.
func isOther(t *testing.T, err error, what string, expected ...error) {
	t.Helper()
	if err == nil || slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		t.Errorf("%s: got %v, want an error that names the mistake", what, err)
	}
}

// errOf is the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }
