package sqlitelock

import (
	"context"
	"testing"
	"time"
)

// Who keeps the file locked is looked up once in a while, however many want to know: the
// look stops all who lock a file on this machine.
func TestBlockersAreLookedUpOnceInAWhile(t *testing.T) {
	f := start(t, newFile(t)).store.file
	_ = f.stuck(context.Canceled)
	first := f.blocked.at
	if first.IsZero() {
		t.Fatal("nobody has looked")
	}
	f.blocked.at = first.Add(time.Hour) // so that it is not over here
	for range 1000 {
		_ = f.stuck(context.DeadlineExceeded)
	}
	if !f.blocked.at.Equal(first.Add(time.Hour)) {
		t.Error("they have looked again")
	}
	f.blocked.at = time.Now().Add(-time.Hour)
	_ = f.stuck(context.Canceled)
	if time.Since(f.blocked.at) > time.Minute {
		t.Error("what was seen an hour ago is still told")
	}
}
