//go:build unix

package drivertest

import "syscall"

// stop makes the process pause at whatever instruction it is, and resume lets
// it go on as if nothing had happened.
func (p *process) stop() error   { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
