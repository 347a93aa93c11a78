package guard

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
)

// family is all descendants of this process, which is their subreaper: every
// one of them is its child or has a line of parents up to a child of it, at
// every moment. So when it has no child left, nobody is left.
//
// Only the goroutine that reaps the children may use it: until it reaps them,
// a child's pid cannot become another's.
type family struct {
	command int          // the pid of the command
	led     bool         // the command led a process group of its own
	grouped bool         // and is not reaped yet
	session int          // of this process
	warden  int          // a child that is to be left alone; 0: none
	killed  map[int]bool // children that are not reaped yet
	others  map[int]bool // descendants that were killed

	children func(pid int) []int
	stat     func(pid int) (stat, error)
}

func newFamily(command int, grouped bool) *family {
	session, _ := unix.Getsid(0)
	return &family{
		command: command, led: grouped, grouped: grouped, session: session,
		killed: map[int]bool{}, others: map[int]bool{}, children: childrenOf, stat: readStat,
	}
}

// watchEvery is 0: the kernel tells of every end, orphans included.
const watchEvery = 0

// complete: no descendant is missed.
const complete = true

// empty is asked when this process has no child left.
func (f *family) empty() bool { return true }

// signal sends s to every member that it finds, and returns them. Members that are born or lose
// their parent meanwhile can be missed: a caller that wants all of them repeats
// it. A family that grows faster than it is gone through has no end: so there is one in time.
func (f *family) signal(s syscall.Signal, until driver.Instant) (found []int) {
	sent := map[int]bool{}
	if f.grouped {
		// One call for the whole group, which no fork can escape.
		unix.Kill(-f.command, s)
	}
	me := os.Getpid()
	// Parents before children: what is dead does not fork.
	for todo := []int{me}; len(todo) > 0 && now() < until; todo = todo[1:] {
		parent := todo[0]
		for _, child := range f.children(parent) {
			if sent[child] {
				continue
			}
			sent[child] = true
			if f.signalOne(child, parent, me, s) {
				found = append(found, child)
			}
			todo = append(todo, child)
		}
	}
	return found
}

// signalOne sends s to a process that was seen to be a child of parent. It
// returns false for one that has died.
func (f *family) signalOne(pid, parent, me int, s syscall.Signal) bool {
	if pid == f.warden {
		return false
	}
	if parent == me {
		state, err := f.stat(pid)
		if err != nil || state.state == 'Z' {
			return false
		}
		if s != unix.SIGKILL && f.grouped && state.group == f.command {
			return true // it was sent to the group
		}
		unix.Kill(pid, s)
		return true
	}
	// Not a child of ours: its pid can become another's at any moment. A pidfd
	// cannot, and the parent proves that it was opened for the right one.
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return false
	}
	if err == nil {
		defer unix.Close(fd)
	}
	state, statErr := f.stat(pid)
	if statErr != nil || state.state == 'Z' || state.parent != parent && state.parent != me {
		return false
	}
	if s != unix.SIGKILL && f.grouped && state.group == f.command {
		return true
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, s, nil, 0)
	}
	if err == unix.ENOSYS || err == unix.EPERM {
		unix.Kill(pid, s) // an old kernel, or a sandbox that does not know these calls
	}
	return true
}

// childrenOf lists the children of a process.
func childrenOf(pid int) (children []int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		list, err := os.ReadFile(dir + task.Name() + "/children")
		if err != nil {
			if _, err := os.Stat(dir + task.Name()); err != nil {
				continue // the thread has ended
			}
			return scanForChildren(pid) // a kernel without these lists
		}
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// scanForChildren finds the children of a process among all processes.
func scanForChildren(pid int) (children []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// pass is how long the family is gone through, while it is killed, before its children are
// killed again.
const pass = 100 * time.Millisecond

// kill kills all it can find, again and again while there is somebody new: a
// process that forks must not win by speed. It returns true when nobody is
// left. Whoever else is left is dying, or cannot be killed yet.
func (f *family) kill(reap func() (gone bool)) bool {
	for news := true; news; {
		// What forks and ends at full speed is killed only by who is faster: nothing is
		// read of children, and all else comes when no child is new.
		for news = f.killChildren(); news; news = f.killChildren() {
			if reap() {
				return true
			}
		}
		for _, pid := range f.signal(unix.SIGKILL, now().Add(pass)) {
			news = !f.killed[pid] && note(f.others, pid) || news
		}
		if reap() {
			return true
		}
	}
	return false
}

// killChildren kills the children of this process, and whole groups, which no fork can
// escape, if all of their members are of this family. It tells whether a child was new.
func (f *family) killChildren() (news bool) {
	if f.grouped {
		unix.Kill(-f.command, unix.SIGKILL)
	}
	groups := map[int]bool{}
	for _, pid := range f.children(os.Getpid()) {
		if pid == f.warden || !note(f.killed, pid) {
			continue
		}
		news = true
		if group, err := unix.Getpgid(pid); err == nil && !groups[group] && f.owns(pid, group) {
			groups[group] = true
			unix.Kill(-group, unix.SIGKILL)
		}
		unix.Kill(pid, unix.SIGKILL)
	}
	return news
}

// owns tells whether the group of a child has members of this family only: one of them
// began it, or its session.
func (f *family) owns(child, group int) bool {
	if group <= 1 {
		return false // of another namespace
	}
	if f.killed[group] || f.led && group == f.command {
		return true
	}
	session, err := unix.Getsid(child)
	return err == nil && session != f.session
}

// note adds a pid to a set, and tells whether that is new.
func note(set map[int]bool, pid int) bool {
	if set[pid] {
		return false
	}
	set[pid] = true
	return true
}

// buried is called when a child was reaped: its pid can become another's.
func (f *family) buried(pid int) {
	delete(f.killed, pid)
	switch pid {
	case f.command:
		f.grouped = false
	case f.warden:
		f.warden = 0
	}
}

// exterminate kills the whole family, and returns when nobody is left. The warden, which is
// at it too if it can, is killed last.
func (f *family) exterminate(warden int) {
	f.warden = warden
	reap := func() bool {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			switch {
			case err == unix.ECHILD:
				return true
			case pid > 0:
				f.buried(pid)
			case pid == 0:
				return false
			}
		}
	}
	for !f.kill(reap) {
		if len(f.signal(unix.SIGKILL, now().Add(pass))) == 0 {
			f.warden = 0
		}
		time.Sleep(2 * time.Millisecond)
	}
}
