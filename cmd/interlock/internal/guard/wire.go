package guard

import (
	"syscall"

	"github.com/interlock-go/interlock/driver"
)

// Two pipes connect the program with its guard. Each carries a stream of gob
// values: first a config to the guard, another one each time that it is too late to
// start the command, then orders to it, and reports back.

type config struct {
	Path     string
	Args     []string
	Env      []string
	Group    int // the process group to join; 0: one of its own
	TTL      int64
	Deadline driver.Instant // on the shared clock
	Liveness []uintptr
	GiveBack []byte
}

type order struct {
	Kind   orderKind
	At     driver.Instant // setDeadline: on the shared clock
	Signal syscall.Signal // sendSignal
	Group  bool           // sendSignal: to the whole process group
	N      int            // contJob
}

type orderKind int

const (
	_           orderKind = iota
	setDeadline           // At
	sendSignal            // Signal, Group
	stopJob               // ask every process of the job to end
	killJob               // kill every process of the job
	askStopped            // report isStopped if the command is still stopped
	contJob               // continue the job that was stopped for the Nth time
)

type report struct {
	Kind   reportKind
	N      int            // started: pid; isStopped: how often so far; ended: wait status or exit code
	Guard  int            // started: the guard's pid
	Errno  syscall.Errno  // failed, unable
	Signal syscall.Signal // isStopped
}

type reportKind int

const (
	_          reportKind = iota
	started               // the command was executed
	failed                // it could not be executed; the guard ends
	unable                // the guard cannot do its work; it ends
	late                  // the deadline is too near to start it; the guard awaits another config
	hasStopped            // a signal stopped the command
	isStopped             // the answer to askStopped
	ended                 // the command ended; descendants may be left
	losing                // the job is asked to end, or killed, by the guard
	killing               // the guard is killing
	gone                  // nobody is left; the guard ends
)
