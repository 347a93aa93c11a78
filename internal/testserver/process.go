package testserver

import (
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// Process is a child whose end can be waited for by many.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Begin runs the command. On Linux the child dies with the thread that has
// started it: that thread stays here, to wait for the child.
func Begin(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	bindToParent(cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends the process, also one that is paused or has ended already.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// patience is how long a server may take to end in good order, on a busy machine with a
// slow disk. Of one that is killed instead, processes may be left that are in the way of
// its next start.
const patience = time.Minute

// Terminate lets the process end in good order, which one that is paused can
// only after it goes on.
func (p *Process) Terminate() { p.end(terminate) }

// end lets the process end by itself, and ends it if that takes too long.
func (p *Process) end(ask func(*os.Process) error) {
	_ = p.Resume()
	_ = ask(p.cmd.Process)
	timer := time.NewTimer(busy.Bound(patience))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// Pause stops the process with a signal: it keeps all that it has, and does
// nothing until Resume.
func (p *Process) Pause() error {
	if err := pause(p.cmd.Process); err != nil {
		return err
	}
	return stopped(p.cmd.Process)
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return resume(p.cmd.Process) }
