//go:build linux

package guard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// TestMain lets copies of the test binary be what the tests need: a guard, the
// program that runs a job under one, or a job that is hard to kill.
func TestMain(m *testing.M) {
	guard.Main(func(notes []byte) {
		notebook(notes).write()
		time.Sleep(50 * time.Millisecond) // in which a job that is not gone writes
	})
	switch {
	case os.Getenv(asProgram) != "":
		os.Exit(program())
	case os.Getenv(asDie) != "":
		dieHard()
	case os.Getenv(asBomb) != "":
		bomb(os.Getenv(asBomb))
	case os.Getenv(asHeir) != "":
		inherit()
	case os.Getenv(asListener) != "":
		listen()
	case os.Getenv(asParent) != "":
		n, _ := strconv.Atoi(os.Getenv(asParent))
		parent(n)
	}
	// Under nohup, and in the background of a script, commands ignore signals that tests
	// send to them. What is caught here is not ignored there.
	for s := unix.SIGHUP; s <= unix.SIGTTOU; s++ {
		if guard.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	// With -race, programs would sleep for a second before they exit.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

const (
	asProgram      = "GUARD_TEST_PROGRAM"
	asDie          = "GUARD_TEST_DIE_HARD"
	asBomb         = "GUARD_TEST_BOMB"
	asHeir         = "GUARD_TEST_HEIR"
	asListener     = "GUARD_TEST_LISTENER"
	asParent       = "GUARD_TEST_PARENT"
	testTTL        = "GUARD_TEST_TTL"
	giveBack       = "GUARD_TEST_GIVE_BACK"
	leaseFolder    = "GUARD_TEST_LEASE"
	livenessNumber = "GUARD_TEST_LIVENESS"
	slowly         = "GUARD_TEST_SLOWLY"
	mark           = "GUARD_TEST_MARK"
)

// program is a small "run under a lock": it renews a lease of testTTL as long
// as it runs, and exits as the job does, or with 79 if the lease was lost.
func program() int {
	os.Unsetenv(asProgram)
	ttl, err := time.ParseDuration(os.Getenv(testTTL))
	if err != nil {
		ttl = time.Hour
	}
	if os.Getenv(slowly) != "" {
		beSlow()
	}
	end := lease(os.Getenv(leaseFolder))
	next := func() driver.Instant { return driver.Now().Add(ttl) }
	if end != "" {
		next = func() driver.Instant { return driver.Now().Add(time.Hour) }
	}
	spec := guard.Spec{
		Args:     os.Args[1:],
		TTL:      ttl,
		Deadline: next(),
		GiveBack: []byte(os.Getenv(giveBack)),
	}
	if fd, err := strconv.Atoi(os.Getenv(livenessNumber)); err == nil {
		unix.CloseOnExec(fd)
		spec.Liveness = []*os.File{os.NewFile(uintptr(fd), "liveness")}
	}
	job, err := guard.Start(spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		var start *guard.StartError
		if errors.As(err, &start) {
			return start.Code
		}
		return 70
	}
	renew := time.NewTicker(min(ttl/10, 100*time.Millisecond))
	for {
		select {
		case <-renew.C:
			if left, ok := end.left(); ok {
				renew.Stop()
				deadline := driver.Now().Add(left)
				job.Deadline(deadline)
				end.tell(deadline) // the guard knows it
			} else {
				job.Deadline(next())
			}
		case <-job.Done():
			r := job.Wait()
			if r.Cause != guard.Ended {
				fmt.Fprintln(os.Stderr, "cause:", r.Cause)
				return 79
			}
			r.Raise()
			return r.ExitCode()
		}
	}
}

var serial atomic.Int64

// a run is one program with its job.
type run struct {
	*exec.Cmd
	t      *testing.T
	mark   string
	out    bytes.Buffer
	errors bytes.Buffer
}

// command prepares a program that runs args under guard. When the test ends,
// none of its processes may be left.
func command(t *testing.T, args ...string) *run {
	t.Helper()
	r := &run{t: t, mark: fmt.Sprintf("%d.%d", os.Getpid(), serial.Add(1))}
	r.Cmd = exec.Command("/proc/self/exe", args...)
	r.Env = append(os.Environ(), asProgram+"=1", mark+"="+r.mark)
	r.Stdout, r.Stderr = &r.out, &r.errors
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // also if the test is killed
	t.Cleanup(func() {
		if left := r.processes(); len(left) > 0 {
			t.Errorf("left over: %v", left)
			for pid := range left {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
	})
	return r
}

func (r *run) with(name, value string) *run {
	r.Env = append(r.Env, name+"="+value)
	return r
}

// under gives the run a lease that lasts until it is ended.
func (r *run) under(l lease, ttl time.Duration) *run {
	return r.with(testTTL, ttl.String()).with(leaseFolder, string(l))
}

func (r *run) start() *run {
	r.t.Helper()
	errtest.None(r.t, r.Start())
	return r
}

// wait waits for the program and returns its exit code as a shell would.
func (r *run) wait() int {
	r.t.Helper()
	var exit *exec.ExitError
	if err := within(r.t, "the program ends", r.Wait); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	if ws := r.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return r.ProcessState.ExitCode()
}

// processes finds every live process of this run by the mark in its
// environment.
func (r *run) processes() map[int]string {
	found := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(mark+"="+r.mark+"\x00")) {
			line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			found[pid] = string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
	return found
}

// guard finds the guard of this run.
func (r *run) guard() int { r.t.Helper(); return r.named("lock-guard") }

// warden finds the guard's warden.
func (r *run) warden() int { r.t.Helper(); return r.named("lock-warden") }

func (r *run) named(name string) int {
	r.t.Helper()
	for pid, line := range r.processes() {
		if strings.HasPrefix(line, name+" ") {
			return pid
		}
	}
	r.t.Fatalf("no %s is running", name)
	return 0
}

// exists is for eventually: a job has made the file.
func exists(file string) func() bool {
	return func() bool { _, err := os.Stat(file); return err == nil }
}

// patience is how long a test waits for one thing: much longer than it can take.
const patience = 30 * time.Second

// within waits for what f returns.
func within[T any](t *testing.T, what string, f func() T) (v T) {
	t.Helper()
	c := make(chan T, 1)
	go func() { c <- f() }()
	select {
	case v = <-c:
	case <-time.After(busy.Bound(patience)):
		t.Fatal("never: " + what)
	}
	return v
}

// output runs a command and returns what it writes.
func output(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	if err := within(t, c.String()+" ends", c.Run); err != nil {
		t.Fatalf("%v: %v: %s", c, err, &errors)
	}
	return out.String()
}

// readAll reads to the end of a file.
func readAll(t *testing.T, f *os.File) string {
	t.Helper()
	return within(t, "the end of "+f.Name(), func() string {
		data, _ := io.ReadAll(f)
		return string(data)
	})
}

// notebook is a file to which every process of a job writes a line again and
// again: its pid and the time on the clock that all processes share.
type notebook string

func newNotebook(t *testing.T) notebook { return notebook(filepath.Join(t.TempDir(), "notes")) }

func (n notebook) write() {
	f, err := os.OpenFile(string(n), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if os.IsNotExist(err) { // the test is over, and its folder gone: no job outlives it
		os.Exit(0)
	}
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%d %d\n", os.Getpid(), driver.Now())
}

// read returns the writers and the time of the last line.
func (n notebook) read(t *testing.T) (writers map[int]bool, last driver.Instant) {
	t.Helper()
	data, err := os.ReadFile(string(n))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	writers = map[int]bool{}
	for line := range strings.Lines(string(data)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written: at the end of a page it is there in part
		}
		var pid int
		var at driver.Instant
		if _, err := fmt.Sscan(line, &pid, &at); err != nil {
			t.Fatalf("bad line %q: %v", line, err)
		}
		writers[pid] = true
		last = max(last, at)
	}
	return writers, last
}

// grows waits until somebody writes a line.
func (n notebook) grows(t *testing.T) {
	t.Helper()
	_, before := n.read(t)
	busy.Until(t, "the job writes", func() bool { _, last := n.read(t); return last > before })
}

// liveness is a file whose lock is held until the last process that has
// inherited it is gone.
type liveness struct {
	path string
	file *os.File
}

func newLiveness(t *testing.T) *liveness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "liveness")
	f := errtest.Must(os.Create(path))(t)
	errtest.None(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return &liveness{path, f}
}

// pass starts the run with the liveness file, and forgets it here.
func (l *liveness) pass(r *run) *run {
	r.t.Helper()
	r.ExtraFiles = append(r.ExtraFiles, l.file)
	r.with(livenessNumber, strconv.Itoa(2+len(r.ExtraFiles))).start()
	l.file.Close()
	return r
}

// free waits until nobody holds the file and returns when that was.
func (l *liveness) free(t *testing.T) driver.Instant {
	t.Helper()
	f := errtest.Must(os.Open(l.path))(t)
	defer f.Close()
	free := func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }
	errtest.None(t, within(t, "the last process with the liveness file is gone", free))
	return driver.Now()
}
