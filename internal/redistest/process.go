package redistest

import (
	"os/exec"
	"runtime"
	"time"
)

// process is a child whose end can be waited for by many.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs the command. On Linux the child dies with the thread that has
// started it: that thread stays here, to wait for the child.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
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
	return p, <-started
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// patience is how long a server may take to end in good order.
const patience = 5 * time.Second

// terminate lets the process end in good order, which one that is stopped by a
// signal can only after it goes on.
func (p *process) terminate() {
	_ = resume(p.cmd.Process)
	_ = terminate(p.cmd.Process)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}
