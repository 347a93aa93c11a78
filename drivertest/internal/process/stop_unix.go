//go:build unix

package process

import "syscall"

// Stop makes the process pause at whatever instruction it is, and Resume lets
// it go on as if nothing had happened.
func (p *Process) Stop() error   { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
