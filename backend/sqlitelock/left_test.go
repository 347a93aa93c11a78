package sqlitelock

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

// A Join that comes after the Leave of its ticket, which asked for a tombstone, makes no ticket.
func TestATombstoneRefusesALateJoin(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	r, row := mutex("q"), exchangetest.RowOf(s.Opened)
	l := exchange.Leave{Ref: exchange.Ref{Queue: r.Queue, ID: r.ID}, Session: row, Tombstone: time.Minute}
	if err := exchange.Alone(t.Context(), d.store, &l).Err; !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Leave: %v", err)
	}
	for _, r.Retry = range []bool{false, true} {
		if a := exchange.Alone(t.Context(), d.store, &exchange.Join{Request: r, Session: row}); !errors.Is(a.Err, driver.ErrGone) {
			t.Errorf("a Join after its Leave: %+v", a)
		}
	}
	s.mustJoin(t, mutex("q"), true)
}
