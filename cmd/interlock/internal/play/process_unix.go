//go:build unix

package play

import (
	"os"
	"os/exec"
	"syscall"
)

const canStop = true

// apart puts a process in a group of its own: Ctrl-C at the terminal does not reach it, and when its parent has ended
// and it is stopped, the system lets it go on, so that it ends too.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func goOn(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
