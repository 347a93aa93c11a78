package sqlitelock

import (
	"context"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// NewLate makes a driver whose exchanges are late once they have written: what wait returns, they
// wait for.
func NewLate(ctx context.Context, t testing.TB, path string, wait func() <-chan struct{}) (driver.Driver, error) {
	s, err := openStore(ctx, path, config{mode: defaultMode})
	if err != nil {
		return nil, err
	}
	late(t, s, wait)
	return exchange.New(s, s.mailbox.Name), nil
}

func late(t testing.TB, s *store, wait func() <-chan struct{}) {
	t.Helper()
	f := s.file
	noError(t, f.lock.take(context.Background(), nil))
	defer f.lock.pass()
	noError(t, f.write.CreateFunction("late", &sqlite.FunctionImpl{
		AllowIndirect: true,
		Scalar: func(sqlite.Context, []sqlite.Value) (sqlite.Value, error) {
			<-wait()
			return sqlite.IntegerValue(0), nil
		},
	}))
	for _, what := range []string{"INSERT", "UPDATE"} {
		noError(t, script(f.write, "CREATE TEMP TRIGGER IF NOT EXISTS [late "+what+"] AFTER "+what+" ON main.queue BEGIN SELECT late(); END"))
	}
}

// ReadAround has a client read the whole file in a transaction that began before something happened. It
// returns what is wrong with what was read.
func ReadAround(t testing.TB, path string, happens func()) (wrong string) {
	t.Helper()
	s := start(t, path).store
	if err := s.view(t.Context(), func(c conn, _ time.Time) error {
		if err := c.exec("SELECT one FROM file"); err != nil {
			return err
		}
		happens()
		err := c.one("PRAGMA quick_check", func(r *sqlite.Stmt) { wrong = r.ColumnText(0) })
		return err
	}); err != nil {
		return err.Error()
	}
	return wrong
}
