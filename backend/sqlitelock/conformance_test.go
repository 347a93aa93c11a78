package sqlitelock_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Backend{
		TTL:   time.Second,
		World: newWorld,
		Shape: "mutex", // what a queue is used as is only stored and compared
		Unsupported: map[string]string{
			"Repeater":         "no network brings anything twice",
			"Stranger":         noServer,
			"Impostor":         noServer,
			"SilentHost":       noServer,
			"Deaf":             noServer,
			"Mute":             noServer,
			"NoRights":         "who may not open the files opens nothing: OtherUser",
			"ProcessesThatDie": "a process that is stopped in the middle of a transaction keeps the file locked; processes that are killed are TestKilledAtAnyInstruction",
			"StoppedInAChange": "a transaction locks the whole file: TestAStoppedWriter",
			"HangingBackend":   "a file does not hang: reading never waits, and a writer that is stopped is TestAStoppedWriter",
		},
	})
}

const noServer = "there is no server"

func newWorld(t testing.TB) drivertest.World {
	path := filepath.Join(t.TempDir(), "locks.db")
	var late atomic.Pointer[chan struct{}] // closed: nothing is
	open := make(chan struct{})
	close(open)
	late.Store(&open)
	t.Cleanup(func() { // whatever the rule did, the file is sound
		if _, err := os.Stat(path); err != nil || strings.HasSuffix(t.Name(), "/Member") {
			return
		}
		d, err := sqlitelock.New(context.Background(), path)
		if err != nil {
			t.Error(err)
			return
		}
		defer d.Close()
		for _, f := range d.Check(context.Background()) {
			if f.Status == driver.Fail {
				t.Errorf("afterwards: %+v", f)
			}
		}
	})
	return drivertest.World{
		Open: func(ctx context.Context) (driver.Driver, error) {
			return sqlitelock.NewLate(ctx, t, path, func() <-chan struct{} { return *late.Load() })
		},
		URL:   "sqlite://" + path,
		Files: func() []string { return []string{path, path + "-wal", path + "-shm"} },
		Late: func() (resume func()) {
			held := make(chan struct{})
			late.Store(&held)
			return func() {
				late.Store(&open)
				close(held)
			}
		},
		LoseMessages: func() (resume func()) { return loseMessages(t, path) },
		Damages:      func(name string) []drivertest.Damage { return damages(t, path, name) },
		Shared: func(t testing.TB) drivertest.Shared {
			folder := drivertest.SharedFolder(t)
			return drivertest.Shared{Folder: folder, Open: func(ctx context.Context) (driver.Driver, error) {
				return drivertest.OpenURL(ctx, "sqlite://"+folder+"/locks.db?mode=660")
			}}
		},
		Unreachable: func(ctx context.Context) error {
			d, err := sqlitelock.New(ctx, filepath.Join(t.TempDir(), "missing", "locks.db"))
			if err == nil {
				d.Close()
			}
			return err
		},
	}
}

// loseMessages hides the sockets to which messages go.
func loseMessages(t testing.TB, path string) (resume func()) {
	posts, err := filepath.Glob(path + "-interlock/*.post")
	if err != nil || len(posts) == 0 {
		t.Fatalf("no sockets in %s-interlock: %v", path, err)
	}
	for _, p := range posts {
		noError(t, os.Rename(p, p+".lost"))
	}
	return func() {
		for _, p := range posts {
			noError(t, os.Rename(p+".lost", p))
		}
	}
}

// damages are what can be written into each column of the rows of a name.
func damages(t testing.TB, path, name string) (all []drivertest.Damage) {
	c := errtest.Must(sqlite.OpenConn(path, sqlite.OpenReadWrite))(t)
	t.Cleanup(func() { c.Close() })
	c.SetBusyTimeout(limit)
	for _, table := range [][2]string{{"queue", "name"}, {"ticket", "queue"}, {"cell", "name"}} {
		var columns []string
		if err := sqlitex.Execute(c, "SELECT name FROM pragma_table_info(?)", &sqlitex.ExecOptions{Args: []any{table[0]}, ResultFunc: func(s *sqlite.Stmt) error {
			columns = append(columns, s.ColumnText(0))
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		for _, column := range columns {
			if column == table[1] {
				continue // then they are records of another one
			}
			values := []string{"-9223372036854775808", "9223372036854775807", "'../../x'"}
			if column == "note" || column == "value" {
				values = append(values, "zeroblob(20000000)")
			}
			for _, v := range values {
				all = append(all, drivertest.Damage{What: table[0] + "." + column + " = " + v, Do: func() error {
					return sqlitex.Execute(c, "UPDATE "+table[0]+" SET "+column+" = "+v+" WHERE "+table[1]+" = ?", &sqlitex.ExecOptions{Args: []any{name}})
				}})
			}
		}
	}
	return all
}

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	primitives.Run(t, primitives.Backend{World: newWorld, TTL: time.Second})
}
