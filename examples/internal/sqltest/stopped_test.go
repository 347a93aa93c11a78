//go:build unix

package sqltest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/errtest"
)

// program names what a copy of the test binary does instead of the tests.
const program = "INTERLOCK_TEST_PROGRAM"

var programs = map[string]func(args []string) error{
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
	return errtest.Received(p.t, "a line of the other process", line)
}

func (p *process) says(want string) {
	p.t.Helper()
	if got := p.next(); got != want {
		p.t.Fatalf("the other process says %q, want %q", got, want)
	}
}

func TestSharedLeasesCannotBeFenced(t *testing.T) {
	locks := errtest.Must(interlock.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "locks.db")))(t)
	defer func() { isErr(t, locks.Close(), nil) }()
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
		var memory fence.Memory
		isErr(t, memory.Do(t.Context(), "resource", lease, func() error { return nil }), c.want, name)
		isErr(t, lease.Release(), nil)
	}
}
