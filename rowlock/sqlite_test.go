package rowlock

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// coded is an error of a driver that tells SQLite's result code.
type coded int

func (c coded) Error() string { return fmt.Sprintf("result code %d", int(c)) }
func (c coded) Code() int     { return int(c) }

func TestErrorsOfEveryDriverAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		err     error
		meaning error
	}{
		{nil, nil},
		{coded(1), nil},
		{coded(5), ErrBusy},
		{coded(261), ErrBusy}, // SQLITE_BUSY_RECOVERY
		{coded(517), ErrConflict},
		{coded(6), ErrBusy},
		{coded(262), ErrBusy}, // SQLITE_LOCKED_SHAREDCACHE
		{coded(19), nil},
		{fmt.Errorf("insert: %w", coded(5)), ErrBusy},
		{errors.New("database is locked"), ErrBusy},
		{errors.New("sqlite3: database table is locked: items"), ErrBusy},
		{errors.New("no such table: items"), nil},
	} {
		got := sqlite{}.explain(c.err)
		switch {
		case c.meaning == nil:
			if !errors.Is(got, c.err) || errors.Is(got, ErrBusy) || errors.Is(got, ErrConflict) {
				t.Errorf("%v: got %v, want it unchanged", c.err, got)
			}
		case !errors.Is(got, c.meaning) || !errors.Is(got, c.err):
			t.Errorf("%v: got %v, want %v with its reason", c.err, got, c.meaning)
		}
	}
}

func TestPausesGrowUpToTheirBound(t *testing.T) {
	const most = 20 * time.Millisecond
	for try := range 100 {
		bound := most
		if try < 5 {
			bound = time.Millisecond << try
		}
		for range 100 {
			if d := backoff(try, most); d <= 0 || d > bound {
				t.Fatalf("after failure %d: %v, want up to %v", try, d, bound)
			}
		}
	}
}
