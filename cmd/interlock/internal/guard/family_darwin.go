package guard

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
)

// family is the members of the command's process group and all that descend
// from it. An orphan that has left the group is lost from sight, unless it was
// seen before it lost its parent.
type family struct {
	command int
	grouped bool             // the command leads a process group of its own, and is not reaped yet
	led     bool             // it led one
	seen    map[int32]uint64 // pid to start time
}

func newFamily(command int, grouped bool) *family {
	return &family{command: command, grouped: grouped, led: grouped, seen: map[int32]uint64{}}
}

// members lists who is alive.
func (f *family) members() (pids []int) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			pid := p.Proc.P_pid
			born := uint64(p.Proc.P_starttime.Sec)<<20 + uint64(p.Proc.P_starttime.Usec)
			if f.seen[pid] == born {
				continue
			}
			_, child := f.seen[p.Eproc.Ppid]
			if pid == int32(f.command) || child || f.led && p.Eproc.Pgid == int32(f.command) {
				f.seen[pid] = born
				grown = true
			}
		}
	}
	const zombie = 5
	alive := map[int32]bool{}
	for _, p := range all {
		pid := p.Proc.P_pid
		born := uint64(p.Proc.P_starttime.Sec)<<20 + uint64(p.Proc.P_starttime.Usec)
		if f.seen[pid] == born && p.Proc.P_stat != zombie {
			alive[pid] = true
			pids = append(pids, int(pid))
		}
	}
	for pid := range f.seen {
		if !alive[pid] {
			delete(f.seen, pid)
		}
	}
	return pids
}

// watchEvery is how often the family is looked at, to know its members before
// they lose their parents, and to notice their end.
const watchEvery = 100 * time.Millisecond

// complete: a descendant can be missed.
const complete = false

// empty tells whether nobody is alive.
func (f *family) empty() bool { return len(f.members()) == 0 }

// signal sends s to every member that it finds, and returns them.
func (f *family) signal(s syscall.Signal, _ driver.Instant) (found []int) {
	if f.grouped {
		unix.Kill(-f.command, s)
	}
	found = f.members()
	for _, pid := range found {
		if g, err := unix.Getpgid(pid); s == unix.SIGKILL || !f.grouped || err != nil || g != f.command {
			unix.Kill(pid, s)
		}
	}
	return found
}

// buried is called when a child was reaped.
func (f *family) buried(pid int) {
	if pid == f.command {
		f.grouped = false
	}
}

// kill kills all it can find. It returns true when nobody is left.
func (f *family) kill(reap func() (gone bool)) bool {
	f.signal(unix.SIGKILL, 0)
	return reap()
}

// exterminate kills the guard and the whole family, and returns when nobody is left.
func (f *family) exterminate(guard int) {
	if guard != 0 {
		relieve(guard, 0)
	}
	for len(f.signal(unix.SIGKILL, 0)) > 0 {
		time.Sleep(2 * time.Millisecond)
	}
}
