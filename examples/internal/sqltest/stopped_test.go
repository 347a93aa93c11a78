//go:build unix

package sqltest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/fence"
)

// seller marks the copy of the test binary that holds the lock and is stopped.
const seller = "INTERLOCK_TEST_SELLER"

func TestMain(m *testing.M) {
	if os.Getenv(seller) != "" {
		if err := sellTooLate(os.Args[1], os.Args[2]); err != nil {
			fmt.Println("error:", err)
		}
		return
	}
	status := m.Run()
	stopServers()
	os.Exit(status)
}

// sellTooLate is the worst holder there is: it takes the lock, reads the stock,
// and some time later writes without looking whether it still holds the lock.
func sellTooLate(url, file string) error {
	ctx := context.Background()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer locks.Close()
	lease, err := locks.Mutex("stock").Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("acquired")
	stock, err := readFenced(ctx, db, lease)
	if err != nil {
		return err
	}
	fmt.Println("read")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := writeFenced(ctx, db, lease, stock-1); err != nil {
		return err
	}
	fmt.Println("written")
	return nil
}

func readFenced(ctx context.Context, db *sql.DB, g fence.Grant) (stock int64, err error) {
	err = underToken(ctx, db, g, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT stock FROM items WHERE id = 1").Scan(&stock)
	})
	return stock, err
}

func writeFenced(ctx context.Context, db *sql.DB, g fence.Grant, stock int64) error {
	return underToken(ctx, db, g, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE items SET stock = ? WHERE id = 1", stock)
		return err
	})
}

func underToken(ctx context.Context, db *sql.DB, g fence.Grant, f func(*sql.Tx) error) error {
	tokens, err := fence.NewTable(fence.SQLite, fence.DefaultTable)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := tokens.Check(ctx, tx, "stock", g); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func TestTheLateWriteOfAStoppedProcessIsRefused(t *testing.T) {
	ctx := t.Context()
	file := newFile(t, "WAL", "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL)", "INSERT INTO items VALUES (1, 100)") +
		"&_pragma=busy_timeout(60000)"
	url := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	db := open(t, file)
	tokens, err := fence.NewTable(fence.SQLite, fence.DefaultTable)
	if err != nil {
		t.Fatal(err)
	}
	if err := tokens.Create(ctx, db); err != nil {
		t.Fatal(err)
	}

	old := exec.Command(os.Args[0], url+"?ttl=2s", file)
	old.Env = append(os.Environ(), seller+"=1")
	old.Stderr = os.Stderr
	in, err := old.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := old.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = old.Process.Kill()
		_ = old.Wait()
	})
	said := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !said.Scan() {
			t.Fatal("the process that is to be stopped has ended early:", said.Err())
		}
		return said.Text()
	}
	for _, want := range []string{"acquired", "read"} {
		if got := next(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if err := old.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	locks, err := interlock.Open(ctx, url, interlock.TTL(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	}()
	lease, err := locks.Mutex("stock").Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	stock, err := readFenced(ctx, db, lease)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(in, "go on"); err != nil {
		t.Fatal(err)
	}
	if got := next(); !strings.Contains(got, fence.ErrStale.Error()) || !strings.Contains(got, strconv.FormatUint(lease.Token(), 10)) {
		t.Errorf("the late write: got %q, want it refused because of token %d", got, lease.Token())
	}
	if err := writeFenced(ctx, db, lease, stock-1); err != nil {
		t.Error("the holder's write:", err)
	}
	if got := number(t, db, "SELECT stock FROM items WHERE id = 1"); got != 99 {
		t.Errorf("stock: got %d, want 99", got)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
}

func TestSharedLeasesCannotBeFenced(t *testing.T) {
	locks, err := interlock.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "locks.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		lock *interlock.Lock
		want error
	}{
		"a mutex":     {locks.Mutex("m"), nil},
		"a writer":    {locks.RWMutex("rw").Writer(), nil},
		"a reader":    {locks.RWMutex("rw").Reader(), fence.ErrNotComparable},
		"a permit":    {locks.Semaphore("s", 3), fence.ErrNotComparable},
		"all permits": {locks.Semaphore("s", 3, interlock.Weight(3)), nil},
	} {
		lease, err := c.lock.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var resource fence.Highest
		if err := resource.Check(lease); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
}
