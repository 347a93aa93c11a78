//go:build unix

package sqltest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
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
	"github.com/interlock-go/interlock/internal/errtest"
)

// program names what a copy of the test binary does instead of the tests.
const program = "INTERLOCK_TEST_PROGRAM"

var programs = map[string]func(args []string) error{
	"seller":  func(args []string) error { return sellTooLate(args[0], args[1]) },
	"orderer": order,
	"putter":  put,
}

func TestMain(m *testing.M) {
	if run := programs[os.Getenv(program)]; run != nil {
		if err := run(os.Args[1:]); err != nil {
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
	tokens := errtest.Must(fence.NewTable(fence.SQLite, fence.DefaultTable))(t)
	noError(t, tokens.Create(ctx, db))

	old := start(t, "seller", url+"?ttl=2s", file)
	old.says("acquired")
	old.says("read")
	old.signal(syscall.SIGSTOP)

	locks := errtest.Must(interlock.Open(ctx, url, interlock.TTL(time.Minute)))(t)
	defer func() {
		isErr(t, locks.Close(), nil)
	}()
	lease := errtest.Must(locks.Mutex("stock").Acquire(ctx))(t)
	stock := errtest.Must(readFenced(ctx, db, lease))(t)
	old.signal(syscall.SIGCONT)
	old.tell("go on")
	if got := old.next(); !strings.Contains(got, fence.ErrStale.Error()) || !strings.Contains(got, strconv.FormatUint(lease.Token(), 10)) {
		t.Errorf("the late write: got %q, want it refused because of token %d", got, lease.Token())
	}
	isErr(t, writeFenced(ctx, db, lease, stock-1), nil, "the holder's write")
	if got := number(t, db, "SELECT stock FROM items WHERE id = 1"); got != 99 {
		t.Errorf("stock: got %d, want 99", got)
	}
	isErr(t, lease.Release(), nil)
}

// process is a copy of the test binary that runs one of the programs.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Writer
	said *bufio.Scanner
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), program+"="+name)
	p.cmd.Stderr = os.Stderr
	in := errtest.Must(p.cmd.StdinPipe())(t)
	out := errtest.Must(p.cmd.StdoutPipe())(t)
	noError(t, p.cmd.Start())
	p.in, p.said = in, bufio.NewScanner(out)
	t.Cleanup(p.kill)
	return p
}

// kill ends the process (SIGKILL).
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	noError(p.t, p.cmd.Process.Signal(s))
}

func (p *process) tell(line string) {
	p.t.Helper()
	errtest.Must(fmt.Fprintln(p.in, line))(p.t)
}

// next is the next line that the process prints.
func (p *process) next() string {
	p.t.Helper()
	line := make(chan string, 1)
	go func() {
		if !p.said.Scan() {
			line <- fmt.Sprint("it has ended: ", p.said.Err())
			return
		}
		line <- p.said.Text()
	}()
	return receive(p.t, "a line of the other process", line)
}

func (p *process) says(want string) {
	p.t.Helper()
	if got := p.next(); got != want {
		p.t.Fatalf("the other process says %q, want %q", got, want)
	}
}

func TestSharedLeasesCannotBeFenced(t *testing.T) {
	locks := errtest.Must(interlock.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "locks.db")))(t)
	defer func() {
		isErr(t, locks.Close(), nil)
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
		lease := errtest.Must(c.lock.Acquire(t.Context()))(t)
		var resource fence.Highest
		if err := resource.Check(lease); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		isErr(t, lease.Release(), nil)
	}
}
