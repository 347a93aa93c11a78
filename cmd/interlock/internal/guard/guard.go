// Package guard runs a command such that it is gone by a deadline, whatever
// happens to the program that started it.
//
// Killing a program leaves its children alive, and stopping it leaves them
// running. So the program does not start the job itself: it starts a guard, a
// second process of the same binary, and the guard starts the job. The guard
// is told each new deadline over a pipe. When that pipe ends, because the
// program died, or when the guard's own timer reaches the deadline, because
// the program was stopped, it ends the job and all its descendants by itself.
//
//	program ── deadlines, signals ──▶ guard ── parent of ──▶ job ─▶ …
//	        ◀── stopped, ended, gone ──
//
// On Linux a third process, the warden, stands between the two: it is the child of the
// program and the parent of the guard.
//
// # What is certain
//
// On Linux the guard is the subreaper of the job: a descendant that loses its
// parent, also by a double fork and setsid, becomes the guard's child. The job
// is gone when the guard has no child left, and nobody can be missed. If the guard
// is killed, all of them become children of the warden, and, if that was killed too,
// of the program; both kill what they find. A guard that is stopped is continued by
// the warden, and a warden by the program. So one of the three ends the job, whatever
// happens to the other two. Where there is no subreaper (darwin), there is no warden,
// and a process that leaves both the job's process group and its line of parents is
// lost from sight.
//
// # What stays uncovered
//
// If program, warden and guard are all killed before the job is gone, the command itself
// still dies (PR_SET_PDEATHSIG), but its descendants go on; likewise if the program is
// stopped and the two others are killed. A job of thousands of processes may need longer to
// be gone than there is time from KILL to the deadline. A process in an
// uninterruptible wait dies only when the kernel lets it. A descendant that
// runs as another user (sudo) cannot be killed by an ordinary user; the job
// then does not count as gone. Work that is handed to a daemon that ran before
// (at, a container engine) does not descend from the job. When everything,
// guard included, is frozen past the deadline and then continued, the job can
// run for the moment that the guard needs to kill it. In all these cases only
// the fencing token protects what the lock guards.
package guard

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Spec says what to run.
type Spec struct {
	// Args is the command and its arguments. A command without a slash is looked
	// up in PATH.
	Args []string

	// Env is the job's environment. Nil means that of this process.
	Env []string

	// TTL is the length of the lease. It sets how long before a deadline the job
	// is asked to end (a sixth, at most 10 s) and how long before it is killed
	// (a twentieth, at most 1 s).
	TTL time.Duration

	// Deadline is the first deadline, on the clock of [driver.Now].
	Deadline driver.Instant

	// Liveness are open files that the guard and the job inherit, at descriptor
	// numbers from 200. They are closed when nobody of the job is left. The
	// caller keeps its own copies.
	Liveness []*os.File

	// GiveBack is what the function of [Main] gets if this process has died and nobody of
	// the job is left. On Linux only: elsewhere the guard can miss a descendant. Nil: it is
	// not called. What is in it, the guard alone gets to see.
	GiveBack []byte

	// Judge is asked after this process was stopped and continued, before a
	// stopped job is continued. An error means that the lease is lost: the job is
	// killed instead. Nil judges by the deadline alone, which is always enforced.
	//
	// A job that shares the terminal's process group is continued by the shell,
	// at the same moment as this process. It does not run on without a lease
	// even so: the guard is not stopped with it, and has killed it at the
	// deadline.
	Judge func() error

	// Renewed is called by Start when too little is left before the deadline to start
	// the command: the job would be asked to end at once. It waits until the lease is
	// renewed and returns the new deadline; its error is that of Start. Nil: Start fails
	// with ErrLate.
	Renewed func() (driver.Instant, error)

	// Ready is called when Start has taken over the signals, before it starts anything.
	// An error, because of a signal that came before, perhaps, is that of Start. Nil is
	// always ready.
	Ready func() error
}

// ErrLate: the deadline is so near that the command was not started.
var ErrLate = errors.New("guard: the deadline is too near to start the command")

// renewed waits for a later deadline.
func (s *Spec) renewed() (driver.Instant, error) {
	if s.Renewed == nil {
		return 0, ErrLate
	}
	return s.Renewed()
}

func (s *Spec) ready() error {
	if s.Ready == nil {
		return nil
	}
	return s.Ready()
}

// Cause says why a job is over.
type Cause int

const (
	Ended     Cause = iota // by itself, or by a signal that was not the guard's
	Lost                   // it was told to end, or killed, for the deadline's sake or by Stop or Kill
	GuardDied              // the guard was killed, and the job with it, if it had begun
)

func (c Cause) String() string {
	switch c {
	case Ended:
		return "ended"
	case Lost:
		return "lost"
	case GuardDied:
		return "guard died"
	}
	return "unknown"
}

// Result tells how a job ended.
type Result struct {
	Cause Cause

	// Code is the exit code of the command, if it exited.
	Code int

	// Signal is the signal that ended the command, or 0.
	Signal syscall.Signal

	// Interrupted means that the command died by Ctrl-C or Ctrl-\ at the
	// terminal, or as if it had.
	Interrupted bool
}

// ExitCode is the job's status as a shell shows it: the command's exit code, or
// 128+n if signal n ended it.
func (r Result) ExitCode() int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.Code
}

// Raise ends this process by the signal by which the command was interrupted,
// if it was, and otherwise does nothing. A program calls it last before it
// exits: a shell shows the status 128+n either way, but ends its loop or list
// of commands only for a process that died by the signal itself.
func (r Result) Raise() {
	if r.Interrupted {
		raise(r.Signal)
	}
}

// A StartError means that the command could not be run, and that nothing of it
// ran.
type StartError struct {
	Name string
	Code int // as shells have it: 126 cannot be executed, 127 not found; 71 the system is short of something
	Err  error
}

func (e *StartError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Start starts the guard, and the guard starts the job. When Start returns
// without an error, the command has been executed. Only if the guard is killed in
// that moment it is not known: then the job's result, soon, is GuardDied.
//
// From then on, until [Job.Close], Start also takes over the signals of this
// process: HUP, INT, QUIT, TERM, USR1, USR2 and WINCH go to the command, as long as anybody of the job is left, and
// then nowhere; when
// the terminal stops the job, this process stops too. The caller should catch
// none of them itself. What a terminal sends, it sends to the job as well if the
// job is in this process's group: so HUP, INT, QUIT and WINCH are not sent on
// then while that group is in the foreground, not even if somebody sent them to
// this process alone.
//
// Signals that the caller ignores stay ignored in the job, as under nohup: HUP
// and INT, and on Linux those of terminal stops; of others Go's runtime forgets
// it.
//
// The process must have no children of its own while the job runs: if the
// guard is killed, all children that are left are taken for the job's.
//
// A command that cannot be run is a [*StartError]. Every other error is of the system, of
// Ready or of Renewed, or ErrLate.
func Start(s Spec) (*Job, error) { return start(s) }

// Wait waits until nobody of the job is left: the command, all its descendants
// and the guard have ended. It returns the same result each time.
func (j *Job) Wait() Result {
	<-j.done
	return j.result
}

// Close has signals do again to this process what they do without a job. After Wait the program may have something
// to finish, such as the release of a lock; no signal ends it before it calls Close.
func (j *Job) Close() { signal.Stop(j.signals) }

// Done is closed when nobody of the job is left.
func (j *Job) Done() <-chan struct{} { return j.done }

// Ended is closed when the command itself has ended. Descendants may be left.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Deadline sets a new deadline, on the clock of [driver.Now]. The job is asked
// to end (SIGTERM) a sixth of the TTL before it, 10 s at most, and is gone by
// it.
func (j *Job) Deadline(t driver.Instant) { j.setDeadline(t) }

// Signal sends a signal to the command, or, once that has ended, to what is
// left of the job.
func (j *Job) Signal(s syscall.Signal) { j.send(order{Kind: sendSignal, Signal: s}) }

// Stop asks the job to end (SIGTERM to every process of it). What is left at
// the deadline is killed. The result's cause is Lost.
func (j *Job) Stop() { j.send(order{Kind: stopJob}) }

// Kill kills every process of the job at once. The result's cause is Lost.
func (j *Job) Kill() { j.send(order{Kind: killJob}) }
