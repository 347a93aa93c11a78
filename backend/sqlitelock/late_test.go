package sqlitelock

import (
	"context"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"zombiezen.com/go/sqlite"
)

// Late makes a driver whose exchanges are late once they have written: what wait
// returns, they wait for.
func Late(t testing.TB, d driver.Driver, wait func() <-chan struct{}) {
	t.Helper()
	f := d.(*Driver).file
	if _, err := f.turn.take(context.Background(), coming, nil); err != nil {
		t.Fatal(err)
	}
	defer f.turn.pass()
	if err := f.write.CreateFunction("late", &sqlite.FunctionImpl{
		AllowIndirect: true,
		Scalar: func(sqlite.Context, []sqlite.Value) (sqlite.Value, error) {
			<-wait()
			return sqlite.IntegerValue(0), nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"INSERT ON main.ticket", "DELETE ON main.ticket", "UPDATE ON main.session", "INSERT ON main.queue", "UPDATE ON main.queue"} {
		if err := script(f.write, "CREATE TEMP TRIGGER [late "+what+"] AFTER "+what+" BEGIN SELECT late(); END"); err != nil {
			t.Fatal(err)
		}
	}
}
