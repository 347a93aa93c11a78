// Package errtest looks at what an error says to whoever wrote a URL.
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
