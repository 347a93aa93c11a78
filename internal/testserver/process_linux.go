package testserver

import (
	"os/exec"
	"syscall"
)

// bindToParent ends the child with the thread that starts it.
func bindToParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
