package guard

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/interlock-go/interlock/driver"
)

// Job is a command that runs under guard, with all its descendants.
type Job struct {
	pid int

	mu     sync.Mutex
	orders *gob.Encoder
	pipe   *os.File

	signals chan os.Signal // that are caught
	ended   chan struct{}
	done    chan struct{}
	result  Result
}

// guardName is the guard's own argv[0], by which it knows itself.
const guardName = "lock-guard"

// LookPath finds the file that a command names. A [*StartError] tells a command
// that was not found from one that cannot be executed.
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", startError(name, err)
	}
	return path, nil
}

func startError(name string, err error) *StartError {
	code := 126
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = 127
	}
	return &StartError{name, code, err}
}

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
	exe, err := os.Executable()
	if err != nil {
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

	// The console sends Ctrl-C to every process on it, the job included.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	fail := func(err error) (*Job, error) {
		signal.Stop(signals)
		orderW.Close()
		reportR.Close()
		return nil, err
	}

	if err := s.ready(); err != nil {
		return fail(err)
	}
	c := config{
		Path: path, Args: s.Args, Env: s.Env,
		TTL: int64(s.TTL), Deadline: share(s.Deadline),
	}
	inherit := []syscall.Handle{syscall.Handle(orderR.Fd()), syscall.Handle(reportW.Fd())}
	for _, f := range s.Liveness {
		c.Liveness = append(c.Liveness, f.Fd())
		inherit = append(inherit, syscall.Handle(f.Fd()))
	}
	for _, h := range inherit {
		if err := windows.SetHandleInformation(windows.Handle(h), windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			return fail(err)
		}
	}
	argv := append([]string{
		guardName, strconv.FormatUint(uint64(inherit[0]), 10), strconv.FormatUint(uint64(inherit[1]), 10),
	}, s.Args...)
	guard, err := os.StartProcess(exe, argv, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{AdditionalInheritedHandles: inherit},
	})
	if err != nil {
		return fail(fmt.Errorf("guard: cannot start: %w", err))
	}
	reportW.Close()

	j := &Job{signals: signals, pipe: orderW, orders: gob.NewEncoder(orderW), ended: make(chan struct{}), done: make(chan struct{})}
	reports := gob.NewDecoder(reportR)
	var first report
	if err := j.orders.Encode(c); err != nil {
		return fail(fmt.Errorf("guard: %w", err))
	}
	if err := reports.Decode(&first); err != nil {
		return fail(errors.New("guard: it died before it started the command"))
	}
	if first.Kind == failed {
		return fail(startError(s.Args[0], first.Errno))
	}
	j.pid = first.N
	command, _ := os.FindProcess(j.pid)

	go func() {
		j.follow(reports, command)
		guard.Wait()
		reportR.Close()
		j.mu.Lock()
		orderW.Close()
		j.mu.Unlock()
		close(j.done)
	}()
	return j, nil
}

// follow reads what the guard reports until nobody of the job is left.
func (j *Job) follow(reports *gob.Decoder, command *os.Process) {
	for {
		var r report
		if err := reports.Decode(&r); err != nil {
			// The guard died, and its job object with it: the system kills the job.
			if command != nil {
				command.Wait()
			}
			j.result.Cause = GuardDied
			select {
			case <-j.ended:
			default:
				close(j.ended)
			}
			return
		}
		switch r.Kind {
		case ended:
			j.result.Code = r.N
			close(j.ended)
		case losing:
			j.result.Cause = Lost
		case gone:
			return
		}
	}
}

func (j *Job) setDeadline(t driver.Instant) { j.send(order{Kind: setDeadline, At: share(t)}) }

func (j *Job) send(o order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.orders.Encode(o); err != nil {
		j.pipe.Close()
	}
}

// raise does nothing: there are no signals to die of.
func raise(syscall.Signal) {}
