//go:build unix

package flashsale

import (
	"os"
	"syscall"
)

const canStop = true

func stopProcess(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
