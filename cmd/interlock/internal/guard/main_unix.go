//go:build linux || darwin

package guard

import (
	"encoding/gob"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
)

// Main is the guard itself. A program that uses [Start] calls it first thing in
// main: in a process that was started as a guard or its warden it does not return,
// in every other it does nothing.
//
// If the program has died, the guard calls the function when nobody of the job is left,
// with what [Spec].GiveBack was, and then ends.
func Main(giveBack func([]byte)) {
	if len(os.Args) < 3 || os.Args[0] != guardName && os.Args[0] != wardenName {
		return
	}
	base, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return
	}
	end, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return
	}
	if os.Args[0] == wardenName {
		os.Exit(ward(base, end, os.Args[3:]))
	}
	os.Exit(guardJob(base, giveBack))
}

// guard is the state of a guard's main loop.
type guard struct {
	config
	schedule
	reports *gob.Encoder
	alarm   *alarm
	family  *family

	pid     int            // the command
	ended   bool           // the command has
	stopped syscall.Signal // what the command is stopped by, or 0
	stops   int            // how often it was stopped
	told    bool           // hasStopped was reported, and no answer came yet: reports must not fill the pipe
	asked   bool           // everybody was sent SIGTERM
	killing bool
	more    bool           // there may be more ends of children to collect
	alone   bool           // the program has died
	end     driver.Instant // when alone: kill at the latest then
}

func guardJob(base int, giveBack func([]byte)) int {
	// The kernel kills the command when the thread that started it ends, so
	// that thread must be the one that stays to the end.
	runtime.LockOSThread()

	unix.CloseOnExec(base)
	unix.CloseOnExec(base + 1)
	in := os.NewFile(uintptr(base), "orders")
	out := os.NewFile(uintptr(base+1), "reports")
	warden := os.Getppid()
	holdSignals()
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	nameProcess(guardName)

	orders := gob.NewDecoder(in)
	g := &guard{reports: gob.NewEncoder(out)}
	err := becomeSubreaper()
	if err == nil {
		g.alarm, err = newAlarm()
	}
	if err != nil {
		g.reports.Encode(report{Kind: unable, Errno: errnoOf(err)})
		return 1
	}
	for {
		var c config // a new one: what is decoded into one that was used keeps parts of it
		if err := orders.Decode(&c); err != nil {
			return 1 // the program died, or has given up, before the job began
		}
		g.config = c
		g.schedule = schedule{ttl: time.Duration(c.TTL), deadline: c.Deadline}
		if now() < g.termAt() {
			break
		}
		g.reports.Encode(report{Kind: late})
	}
	if err := g.begin(); err != nil {
		g.reports.Encode(report{Kind: failed, Errno: errnoOf(err)})
		return 1
	}
	g.reports.Encode(report{Kind: started, N: g.pid, Guard: os.Getpid()})
	letGo(g.Liveness)

	queue := make(chan order)
	go func() {
		defer close(queue)
		for {
			var o order
			if err := orders.Decode(&o); err != nil {
				return
			}
			queue <- o
		}
	}()
	g.run(queue, children)
	if err := g.reports.Encode(report{Kind: gone}); err != nil && complete && g.GiveBack != nil {
		giveBack(g.GiveBack) // nobody reads the reports: the program has died
	}
	dismiss(warden)
	return 0
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = unix.EIO
	}
	return errno
}

// begin starts the command.
func (g *guard) begin() (err error) {
	defer lend(g.Liveness)()
	attr := &syscall.ProcAttr{Env: g.Env, Files: []uintptr{0, 1, 2}, Sys: jobAttr(g.Group)}
	g.pid, err = syscall.ForkExec(g.Path, g.Args, attr)
	if err == unix.ENOEXEC {
		// A script without a first line that names its interpreter is the
		// shell's, as in every shell.
		args := append([]string{"sh", g.Path}, g.Args[1:]...)
		g.pid, err = syscall.ForkExec("/bin/sh", args, attr)
	}
	if err == nil {
		g.family = newFamily(g.pid, g.Group == 0)
	}
	return err
}

// holdSignals keeps signals that are meant for the program or the job from ending this
// process.
func holdSignals() {
	for _, s := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGALRM,
	} {
		// Not signal.Ignore: the job would inherit that.
		if !ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// letGo gives up what the caller passed on for the job only. Who waits for the
// end of the job's output waits for the job, not for its guard.
func letGo(keep []uintptr) {
	if null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			unix.Dup2(null, fd)
		}
		unix.Close(null)
	}
	kept := map[int]bool{0: true, 1: true, 2: true}
	for _, fd := range keep {
		kept[int(fd)] = true
	}
	for _, fd := range openFiles() {
		if inherited(fd) && !kept[fd] {
			unix.Close(fd)
		}
	}
	os.Chdir("/")
}

// openFiles lists the descriptors of this process.
func openFiles() (fds []int) {
	entries, _ := os.ReadDir("/dev/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// perReap is how many ends of children are collected before anything else is looked after:
// a job may have them end faster than this process, which it leaves little time of the
// processors, can collect them.
const perReap = 100

// run guards the job until nobody is left.
func (g *guard) run(orders <-chan order, children <-chan os.Signal) {
	atOnce := make(chan time.Time)
	close(atOnce)
	pause := time.Millisecond
	for {
		var retry <-chan time.Time
		if g.reap() {
			break
		}
		g.keepTime()
		if g.killing {
			if g.family.kill(g.reapAll) {
				break
			}
			retry = time.After(pause)
			pause = min(2*pause, 50*time.Millisecond)
		} else if watchEvery > 0 {
			g.family.empty()
			retry = time.After(watchEvery)
		}
		if g.more {
			retry = atOnce
		}
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
				g.alone, g.end = true, now().Add(afterDeath)
				break
			}
			g.obey(o)
		case <-children:
		case <-g.alarm.C:
		case <-retry:
		}
	}
}

// keepTime does what is due and sets the alarm for what is next.
func (g *guard) keepTime() {
	term, kill := g.termAt(), g.killTime()
	if g.alone {
		term = 0
	}
	t := now()
	if t >= kill {
		g.kill()
		return
	}
	if t >= term {
		g.ask()
		term = kill
	}
	if g.asked {
		term = kill
	}
	if err := g.alarm.set(term); err != nil {
		g.kill() // without a clock nothing can be promised
	}
}

// killTime is when the job is to be killed.
func (g *guard) killTime() driver.Instant {
	if g.alone {
		return min(g.killAt(), g.end)
	}
	return g.killAt()
}

// ask asks everybody to end.
func (g *guard) ask() {
	if !g.asked {
		g.asked = true
		g.reports.Encode(report{Kind: losing})
		g.family.signal(unix.SIGTERM, g.killTime())
	}
}

// kill begins to kill everybody.
func (g *guard) kill() {
	if !g.killing {
		g.killing = true
		// Before the job's processes, if this one may: it is a thread of its own.
		unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
		g.reports.Encode(report{Kind: losing})
		g.reports.Encode(report{Kind: killing})
	}
}

func (g *guard) obey(o order) {
	switch o.Kind {
	case setDeadline:
		g.deadline = o.At
	case stopJob:
		g.ask()
	case killJob:
		g.kill()
	case sendSignal:
		switch {
		case g.ended:
			g.family.signal(o.Signal, g.killTime())
		case o.Group && g.Group == 0:
			unix.Kill(-g.pid, o.Signal)
		default:
			unix.Kill(g.pid, o.Signal)
		}
	case askStopped:
		g.told = false
		g.reap()
		if g.stopped != 0 {
			g.reports.Encode(report{Kind: isStopped, Signal: g.stopped, N: g.stops})
		}
	case contJob:
		g.reap()
		switch {
		case g.stopped == 0 || g.stops != o.N || g.killing:
		case g.Group == 0:
			unix.Kill(-g.pid, unix.SIGCONT)
		default:
			unix.Kill(g.pid, unix.SIGCONT)
		}
	}
}

// commandIs records what became of the command itself.
func (g *guard) commandIs(ws syscall.WaitStatus) {
	switch {
	case ws.Stopped():
		g.stopped = ws.StopSignal()
		g.stops++
		if !g.told {
			g.told = true
			g.reports.Encode(report{Kind: hasStopped})
		}
	case ws.Continued():
		g.stopped = 0
	default:
		g.ended, g.stopped = true, 0
		g.reports.Encode(report{Kind: ended, N: int(ws)})
	}
}

// reap collects what became of the children. It returns true when nobody is
// left.
func (g *guard) reap() (none bool) {
	g.more = false
	for range perReap {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, unix.WNOHANG|unix.WUNTRACED|unix.WCONTINUED, nil)
		switch {
		case err == unix.ECHILD:
			return g.family.empty()
		case err == unix.EINTR:
		case pid <= 0:
			return false
		default:
			if ws.Exited() || ws.Signaled() {
				g.family.buried(pid)
			}
			if pid == g.pid && !g.ended {
				g.commandIs(ws)
			}
		}
	}
	g.more = true
	return false
}

// reapAll is for when all are being killed: the dead that are not collected are in the way
// of finding those who are not.
func (g *guard) reapAll() (none bool) {
	for {
		if none = g.reap(); none || !g.more {
			return none
		}
	}
}
