//go:build linux || darwin

package guard

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
)

// catchSignals catches what is to be passed on to the job. A signal that the
// caller had ignored (nohup) stays ignored, here and in the job.
func catchSignals() chan os.Signal {
	c := make(chan os.Signal, 64)
	for _, s := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT,
	} {
		if s == unix.SIGCONT || !ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// relay passes signals on to the job, and stops this process with it.
func (j *Job) relay(signals <-chan os.Signal, over <-chan struct{}) {
	stop := false // this process has had a terminal's stop signal since it ran last
	for {
		select {
		case s := <-signals:
			stop = stop || s == unix.SIGTSTP
			j.forward(s.(syscall.Signal))
		case s := <-j.suspend:
			if s == unix.SIGTSTP && !stop && j.group != 0 && inForeground() {
				j.awaitStop(signals, over)
			}
			j.suspendSelf(s)
			j.dropStops(signals)
			stop = false
		case <-over:
			return
		}
	}
}

// The wait for a signal that may never come is bounded by looks, not by time: a process that gets no processor
// has its signals late, and looks seldom.
const (
	ownStopEvery = 10 * time.Millisecond
	ownStopLooks = 100
)

// awaitStop waits for the stop signal that a terminal has sent to this process, too, when it
// stopped the job. If it were had only after the shell's bg, it would seem to be sent to a job in the
// background, and stop that again. It does not come if somebody else has stopped the job.
func (j *Job) awaitStop(signals <-chan os.Signal, over <-chan struct{}) {
	tick := time.NewTicker(ownStopEvery)
	defer tick.Stop()
	for looks := 0; looks < ownStopLooks; {
		select {
		case s := <-signals:
			if s == unix.SIGTSTP {
				return
			}
			j.forward(s.(syscall.Signal))
		case <-tick.C:
			looks++
		case <-over:
			return
		}
	}
}

// dropStops passes on what has come while this process stood still, but for stop signals: the
// kernel, too, forgets those of a process that is continued.
func (j *Job) dropStops(signals <-chan os.Signal) {
	for range len(signals) {
		if s := <-signals; s != unix.SIGTSTP {
			j.forward(s.(syscall.Signal))
		}
	}
}

// forward passes on one signal that this process was sent.
//
// What a terminal sends goes to every process of its foreground group. A job
// in this group has had it; a job in its own group is sent it as a whole. No
// program can see whether a signal came from the terminal, so these signals
// are taken to come from there whenever they can.
func (j *Job) forward(s syscall.Signal) {
	switch s {
	case unix.SIGCONT:
		j.resume()
		return
	case unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGWINCH:
		select {
		case <-j.ended:
			// What is left may have left the terminal, too.
			j.send(order{Kind: sendSignal, Signal: s})
			return
		default:
		}
		if inForeground() {
			if j.group == 0 {
				j.send(order{Kind: sendSignal, Signal: s, Group: true})
			}
			return
		}
	}
	j.send(order{Kind: sendSignal, Signal: s})
}

// suspendSelf stops this process, because signal s has stopped the job, so that
// the shell notices. It returns when this process runs again.
func (j *Job) suspendSelf(s syscall.Signal) {
	byTerminal := s == unix.SIGTTIN || s == unix.SIGTTOU
	switch {
	case j.group != 0 && byTerminal && groupOf(j.pid) == j.group:
		return // the terminal has stopped the whole group, this process included
	case j.group == 0 && s == unix.SIGSTOP:
		return // somebody stopped the job, not us
	case s != unix.SIGSTOP && orphaned():
		// Nobody could continue the job. The kernel lets nobody stop by these
		// signals then, but does not see it: the guard hides it.
		if byTerminal {
			j.send(order{Kind: sendSignal, Signal: unix.SIGHUP, Group: true})
		}
		j.send(order{Kind: contJob, N: int(j.stops.Load())})
		return
	}
	// The job may be a shell with a group of its own in front. Whoever continues
	// this process puts this process's group there.
	inFront := groupOf(j.pid)
	if inFront == unix.Getpgrp() || inFront != foregroundGroup() {
		inFront = 0
	}
	actOn(s)
	if inFront != 0 && inForeground() {
		setForegroundGroup(inFront)
	}
	j.resume()
}

// resume continues the job after this process was continued, if it still has a
// lease.
func (j *Job) resume() {
	j.mu.Lock()
	late := driver.Now() >= j.schedule.termAt()
	j.mu.Unlock()
	switch {
	case late:
		// The guard is about to kill the job, or has.
	case j.judge != nil && j.judge() != nil:
		j.Kill()
	default:
		j.send(order{Kind: contJob, N: int(j.stops.Load())})
	}
}

// groupOf is the process group of a process, or 0.
func groupOf(pid int) int {
	g, _ := unix.Getpgid(pid)
	return g
}
