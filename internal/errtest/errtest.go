// Package errtest looks at errors: that there is none, and what one says to the writer of a URL.
// It waits for other goroutines of a test, too.
package errtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// Password is the password of tests, which no error may have.
const Password = "s3cret"

// Says makes sure that there is an error, which has the words and no password.
func Says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it works")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not said: %v", w, err)
		}
	}
	if strings.Contains(err.Error(), Password) {
		t.Errorf("the password is shown: %v", err)
	}
}

// None ends the test if there is an error.
func None(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns what a call has returned, and ends the test if that is an error:
// errtest.Must(f())(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		None(t, err)
		return v
	}
}

// Is fails the test unless an error is the wanted one, or there is none if that is nil. The
// rest says of what.
func Is(t testing.TB, err, want error, what ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", strings.Join(what, " "), err, want)
	}
}

// MustBe ends the test then.
func MustBe(t testing.TB, err, want error, what ...string) {
	t.Helper()
	if Is(t, err, want, what...); !errors.Is(err, want) {
		t.FailNow()
	}
}

// Received is what another goroutine of the test sends, which ends the test if it sends nothing.
func Received[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	limit := busy.Bound(time.Minute)
	select {
	case v = <-from:
	case <-time.After(limit):
		t.Fatalf("%v later nothing has come of %s", limit, what)
	}
	return v
}
