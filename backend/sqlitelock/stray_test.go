package sqlitelock_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// A renewal that does not name a ticket proves nothing for it, also if the ticket
// is granted afterwards; one that names it again does.
func TestARenewalProvesNothingForATicketThatItDoesNotName(t *testing.T) {
	ctx := context.Background()
	d := errtest.Must(sqlitelock.New(ctx, filepath.Join(t.TempDir(), "locks.db")))(t)
	defer d.Close()
	s := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: time.Hour}))(t)
	join := func(digit string) driver.Ticket {
		t.Helper()
		k := errtest.Must(s.Join(ctx, driver.Request{ID: strings.Repeat(digit, 32), Queue: "a", Kind: driver.Mutex, Units: 1, Capacity: 1}))(t)
		return k
	}
	renew := func(known ...driver.Ticket) (began driver.Instant) {
		t.Helper()
		began = driver.Now()
		errtest.Must(s.Renew(ctx, known))(t)
		return began
	}
	first, second, third := join("1"), join("2"), join("3")
	began := renew(first)
	noError(t, s.Leave(ctx, first, true))
	got, err := s.Await(ctx, second)
	if err != nil || got.Proof >= began {
		t.Fatalf("%+v, %v: proven by a renewal at %d that did not name it", got, err, began)
	}
	noError(t, s.Leave(ctx, second, true))
	began = renew(third)
	got, err = s.Await(ctx, third)
	if err != nil || got.Proof < began {
		t.Fatalf("%+v, %v: not proven by a renewal at %d that named it", got, err, began)
	}
}
