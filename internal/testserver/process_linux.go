package testserver

import (
	"os/exec"
	"syscall"
)

// bindToParent ends the child with the thread that starts it.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
