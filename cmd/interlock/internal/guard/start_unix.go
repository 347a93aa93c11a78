//go:build linux || darwin

package guard

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
)

// Job is a command that runs under guard, with all its descendants.
type Job struct {
	pid       int // unknown: the guard has ended before it told of the command
	guardPid  int // 0: not known
	outermost int // the guard's warden, or the guard if it has none; 0: it has been reaped
	group     int // the process group that it shares with this process; 0: its own
	judge     func() error
	terminal  terminal
	signals   chan os.Signal // that are caught

	mu       sync.Mutex
	orders   *gob.Encoder // to order
	order    bytes.Buffer // what is sent next
	pipe     *os.File     // for orders
	reports  *os.File
	schedule schedule
	atIt     bool        // the guard kills the job, or nobody is left to kill
	hung     bool        // the guard should have been at it and was not
	backup   *time.Timer // checks that it is

	stops   atomic.Int64 // how often the command was stopped, as far as we know
	suspend chan syscall.Signal
	ended   chan struct{}
	done    chan struct{}
	result  Result
}

// unknown is no process's pid.
const unknown = -1

func start(s Spec) (*Job, error) {
	if len(s.Args) == 0 {
		return nil, errors.New("guard: no command")
	}
	path, err := LookPath(s.Args[0])
	if err != nil {
		return nil, err
	}
	if s.Env == nil {
		s.Env = os.Environ()
	}
	j := &Job{
		pid:      unknown,
		judge:    s.Judge,
		schedule: schedule{ttl: s.TTL, deadline: s.Deadline},
		suspend:  make(chan syscall.Signal, 1),
		ended:    make(chan struct{}),
		done:     make(chan struct{}),
	}
	if hasTerminal() {
		j.group = unix.Getpgrp()
		j.terminal = saveTerminal()
	}
	// If the guard is killed, its orphans become this process's children, which
	// then does the guard's work.
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}

	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orderR.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		orderW.Close()
		return nil, err
	}
	defer reportW.Close()
	j.pipe, j.orders, j.reports = orderW, gob.NewEncoder(&j.order), reportR

	// Signals are caught from here on, so that none is lost between the job's
	// start and the first that is forwarded.
	signals := catchSignals()
	j.signals = signals
	fail := func(err error) (*Job, error) {
		signal.Stop(signals)
		orderW.Close()
		reportR.Close()
		if j.outermost != 0 {
			wait(j.outermost)
		}
		return nil, err
	}

	if err := s.ready(); err != nil {
		return fail(err)
	}
	files := append([]*os.File{orderR, reportW}, s.Liveness...)
	base, fds, err := place(files)
	if err != nil {
		return fail(err)
	}
	if j.outermost, err = spawn(outermostName, base, fds, s.Args); err != nil {
		return fail(fmt.Errorf("guard: cannot start: %w", err))
	}
	runtime.KeepAlive(files)
	reportW.Close()
	attended := make(chan struct{})
	go func(child int) {
		attend(child)
		close(attended)
	}(j.outermost)

	c := config{
		Path: path, Args: s.Args, Env: s.Env,
		Group: j.group, TTL: int64(s.TTL), Deadline: share(s.Deadline),
		GiveBack: s.GiveBack,
	}
	for i := range s.Liveness {
		c.Liveness = append(c.Liveness, uintptr(base+2+i))
	}
	reports := gob.NewDecoder(reportR)
first:
	for {
		var r report
		_ = j.orders.Encode(c)
		_, _ = j.order.WriteTo(j.pipe) // a guard that cannot read it has told why, or has died
		err := reports.Decode(&r)
		if err != nil {
			ws := wait(j.outermost)
			j.outermost = 0
			if ws.Exited() {
				newFamily(unknown, false).exterminate(0)
				return fail(fmt.Errorf("guard: it ended with status %d before it started the command", ws.ExitStatus()))
			}
			// It was killed, perhaps by the command, which may do that as soon as it
			// runs. So the command is taken for one that ran, and follow, which finds
			// the same, ends what there is of it.
			break
		}
		switch r.Kind {
		case started:
			j.pid, j.guardPid = r.N, r.Guard
			break first
		case failed:
			return fail(startError(s.Args[0], r.Errno))
		case unable:
			return fail(fmt.Errorf("guard: cannot work: %w", r.Errno))
		case late:
			if s.Deadline, err = s.renewed(); err != nil {
				return fail(err)
			}
			j.schedule.deadline, c.Deadline = s.Deadline, share(s.Deadline)
		}
	}

	if j.guardPid != 0 {
		go func() {
			<-attended
			attend(j.guardPid) // of a warden that was killed
		}()
	}
	j.backup = time.AfterFunc(time.Hour, j.checkGuard)
	j.armBackup()
	over := make(chan struct{})
	relayed := make(chan struct{})
	go func() {
		j.relay(signals, over)
		close(relayed)
	}()
	go func() {
		j.follow(reports)
		j.backup.Stop()
		reportR.Close()
		close(over)
		<-relayed
		j.mu.Lock()
		orderW.Close()
		j.mu.Unlock()
		switch s := j.result.Signal; {
		case j.result.Cause != Ended:
			j.terminal.restore()
		case j.group != 0 && (s == unix.SIGINT || s == unix.SIGQUIT):
			j.result.Interrupted = true
		}
		close(j.done)
	}()
	return j, nil
}

// liveBase is the lowest descriptor number for what the guard and the job
// inherit from us: the caller's own, which are small, stay untouched.
const liveBase = 200

// closed is a descriptor that a new process does not have.
const closed = ^uintptr(0)

// place finds room for the files from liveBase on and returns the table of
// descriptors for the guard: those that the caller passed to this process as
// they are, and the files at base and up.
func place(files []*os.File) (base int, fds []uintptr, err error) {
	base = liveBase
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < uint64(2*(base+len(files))) {
		base = int(limit.Cur) / 2 // starting a process needs room above them
	}
	for i := 0; i < len(files); i++ {
		if inherited(base + i) {
			base, i = base+i+1, -1
		}
	}
	for fd := range base {
		if fd < 3 || inherited(fd) {
			fds = append(fds, uintptr(fd))
		} else {
			fds = append(fds, closed)
		}
	}
	for _, f := range files {
		raw, err := f.SyscallConn() // unlike Fd, leaves the file in non-blocking mode
		if err != nil {
			return 0, nil, fmt.Errorf("guard: %s: %w", f.Name(), err)
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, fd) }); err != nil {
			return 0, nil, fmt.Errorf("guard: %s: %w", f.Name(), err)
		}
	}
	return base, fds, nil
}

// inherited tells whether a descriptor is open, and was passed to this process or is meant
// to be passed on.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// The argv[0] by which guard and warden know themselves, and by which ps shows them. Who
// kills all processes that are called like the program does not kill these with it.
const (
	guardName  = "lock-guard"
	wardenName = "lock-warden"
)

// spawn starts a guard or a warden, in a process group of its own: what the terminal,
// or somebody's kill, does to the caller's group does not reach it.
//
// The descriptors from base up are the pipes, of orders and of reports, and the liveness
// files.
func spawn(name string, base int, fds []uintptr, args []string) (int, error) {
	exe, err := self()
	if err != nil {
		return 0, err
	}
	argv := append([]string{name, strconv.Itoa(base), strconv.Itoa(len(fds))}, args...) // the command is there for ps only
	return syscall.ForkExec(exe, argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: fds,
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
}

// send gives the guard an order. What cannot be sent is no loss: then the guard
// has ended, and its other pipe says so.
func (j *Job) send(o order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A guard that does not read must not hang its program. After a cut order
	// the pipe is of no use any more, and its end tells the guard to act.
	if j.orders.Encode(o) != nil || writeBriefly(j.pipe, j.order.Bytes()) != nil {
		j.pipe.Close()
	}
	j.order.Reset()
}

// writeBriefly gives up where nobody reads, after about a second. That is not one deadline: this process may
// be stopped before the write, and would cut an order that the pipe has room for.
func writeBriefly(pipe interface {
	io.Writer
	SetWriteDeadline(time.Time) error
}, order []byte) (err error) {
	for range 10 {
		_ = pipe.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		var n int
		if n, err = pipe.Write(order); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		order = order[n:]
	}
	return err
}

// follow reads what the guard reports until nobody of the job is left.
func (j *Job) follow(reports *gob.Decoder) {
	commandEnded := false
	for {
		var r report
		if err := reports.Decode(&r); err != nil {
			// The guard died, or hangs. Nothing of the job may live on: this process
			// does the guard's work, beside the warden.
			j.mu.Lock()
			j.atIt = true
			switch {
			case j.hung:
				j.result.Cause = Lost
			case j.result.Cause == Ended:
				j.result.Cause = GuardDied
			}
			j.mu.Unlock()
			if !commandEnded {
				j.result.Signal = unix.SIGKILL
				defer close(j.ended)
			}
			newFamily(j.pid, j.group == 0 && j.pid != unknown && !commandEnded).exterminate(j.outermost)
			return
		}
		switch r.Kind {
		case hasStopped:
			j.send(order{Kind: askStopped})
		case isStopped:
			j.stops.Store(int64(r.N))
			select {
			case j.suspend <- r.Signal:
			default: // already at it
			}
		case ended:
			commandEnded = true
			close(j.ended)
			ws := syscall.WaitStatus(r.N)
			if ws.Signaled() {
				j.result.Signal = ws.Signal()
			} else {
				j.result.Code = ws.ExitStatus()
			}
		case losing:
			j.result.Cause = Lost
		case killing:
			j.mu.Lock()
			j.atIt = true
			j.mu.Unlock()
		case gone:
			j.mu.Lock()
			j.atIt = true
			j.mu.Unlock()
			relieve(j.outermost, j.guardPid)
			return
		}
	}
}

func (j *Job) setDeadline(t driver.Instant) {
	j.mu.Lock()
	j.schedule.deadline = t
	j.mu.Unlock()
	j.armBackup()
	j.send(order{Kind: setDeadline, At: share(t)})
}

// armBackup sets the time at which this process looks whether the guard does
// its duty.
func (j *Job) armBackup() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.atIt {
		j.backup.Reset(j.schedule.killAt().Add(j.schedule.lead() / 4).Sub(driver.Now()))
	}
}

// checkGuard takes over from a guard that should be killing the job and is not, because
// somebody keeps it stopped.
func (j *Job) checkGuard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.atIt && driver.Now() >= j.schedule.killAt() {
		j.hung = true
		j.reports.Close()
	}
}

// raise ends this process by a signal.
func raise(s syscall.Signal) {
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // the job has dumped its own
	actOn(s)
}

// wait reaps a child of this process.
func wait(pid int) (ws unix.WaitStatus) {
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
			return ws
		}
	}
}
