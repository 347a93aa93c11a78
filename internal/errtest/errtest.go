// Package errtest looks at errors: that there is none, and what one says to whoever
// wrote a URL.
package errtest

import (
	"strings"
	"testing"
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
