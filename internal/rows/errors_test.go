package rows

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

// stated is an error of a driver that tells PostgreSQL's SQLSTATE.
type stated string

func (s stated) Error() string    { return "SQLSTATE " + string(s) }
func (s stated) SQLState() string { return string(s) }

// numbered looks like the error of MySQL's driver.
type numbered struct {
	Number   uint16
	SQLState [5]byte
	Message  string
}

func (n *numbered) Error() string { return fmt.Sprintf("Error %d", n.Number) }

// others have a field of that name, too, or seem to.
type (
	otherNumber  struct{ Number string }
	hiddenNumber struct{ *numbered }
)

func (otherNumber) Error() string  { return "other" }
func (hiddenNumber) Error() string { return "hidden" }

func TestErrorsOfEveryDriverAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		d       Dialect
		err     error
		meaning error
	}{
		{SQLite, nil, nil},
		{SQLite, coded(1), nil},
		{SQLite, coded(5), ErrBusy},
		{SQLite, coded(261), ErrBusy}, // SQLITE_BUSY_RECOVERY
		{SQLite, coded(517), ErrConflict},
		{SQLite, coded(6), ErrBusy},
		{SQLite, coded(262), ErrBusy}, // SQLITE_LOCKED_SHAREDCACHE
		{SQLite, coded(19), nil},
		{SQLite, fmt.Errorf("insert: %w", coded(5)), ErrBusy},
		{SQLite, errors.New("database is locked"), ErrBusy},
		{SQLite, errors.New("sqlite3: database table is locked: items"), ErrBusy},
		{SQLite, errors.New("no such table: items"), nil},
		{PostgreSQL, nil, nil},
		{PostgreSQL, stated("55P03"), ErrBusy},
		{PostgreSQL, stated("40001"), ErrConflict},
		{PostgreSQL, stated("40P01"), ErrDeadlock},
		{PostgreSQL, stated("23505"), nil},
		{PostgreSQL, errors.Join(errors.New("update"), fmt.Errorf("x: %w", stated("40P01"))), ErrDeadlock},
		{PostgreSQL, coded(5), nil},
		{MySQL, nil, nil},
		{MySQL, &numbered{Number: 1205}, ErrBusy},
		{MySQL, &numbered{Number: 3572}, ErrBusy},
		{MySQL, &numbered{Number: 1213}, ErrDeadlock},
		{MySQL, &numbered{Number: 1020}, ErrConflict},
		{MySQL, &numbered{Number: 1062}, nil},
		{MySQL, errors.Join(errors.New("update"), fmt.Errorf("x: %w", &numbered{Number: 1213})), ErrDeadlock},
		{MySQL, otherNumber{"1213"}, nil},
		{MySQL, hiddenNumber{}, nil},
		{MySQL, coded(5), nil},
	} {
		got := Explain(c.d, c.err)
		switch {
		case c.meaning == nil:
			if !errors.Is(got, c.err) || Retryable(got) {
				t.Errorf("%v: got %v, want it unchanged", c.err, got)
			}
		case !errors.Is(got, c.meaning) || !errors.Is(got, c.err) || !Retryable(got):
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
			if d := Backoff(try, most); d <= 0 || d > bound {
				t.Fatalf("after failure %d: %v, want up to %v", try, d, bound)
			}
		}
	}
}
