//go:build linux

package guard_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// A fork bomb is a job whose processes fork and end as fast as the system lets them. It is
// bounded: by a number of processes (also of ended ones that nobody has collected), and by
// fuse.
const fuse = 30 * time.Second

// bombProcesses is how many processes a bomb has at most.
const bombProcesses = 100

// bombPage is what all processes of a bomb share.
type bombPage struct {
	last  int64 // when one of them last ran
	forks int64 // about: two at once may be counted as one
}

func openBomb(file string) (*bombPage, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	page, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*bombPage)(unsafe.Pointer(&page[0])), nil
}

// Promise: a job is gone by the deadline, however fast its processes fork and end, and
// whichever groups and sessions they begin.
func TestAForkBombIsGoneByTheDeadline(t *testing.T) {
	processes := bombProcesses
	if n, err := strconv.Atoi(os.Getenv("GUARD_TEST_BOMB_PROCESSES")); err == nil {
		processes = n
	}
	for _, kind := range []string{"chains", "chains session", "chains sessions", "tree", "tree session", "tree sessions"} {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bomb")
			page := errtest.Must(openBomb(file))(t)
			l := newLease(t)
			r := command(t, "/proc/self/exe", file, strconv.Itoa(processes)).with(asBomb, kind).under(l, longTTL).start()
			busy.Until(t, "the bomb has gone off", func() bool { return atomic.LoadInt64(&page.forks) > int64(3*processes) })
			deadline := l.ends(t, 3*time.Second)
			code := r.wait()
			end := driver.Now()
			if code != 79 {
				t.Errorf("exit code %d, want 79", code)
			}
			last := driver.Instant(atomic.LoadInt64(&page.last))
			if last >= deadline {
				t.Errorf("the bomb went on for %v after the deadline", last.Sub(deadline))
			}
			kill := deadline.Add(-time.Second)
			t.Logf("%d forks; after KILL the last fork came after %v, the end after %v", atomic.LoadInt64(&page.forks), last.Sub(kill), end.Sub(kill))
		})
	}
}

// bomb is the job.
func bomb(kind string) {
	signal.Ignore(unix.SIGTERM)
	page, err := openBomb(os.Args[1])
	if err != nil {
		panic(err)
	}
	most, _ := strconv.Atoi(os.Args[2])
	runtime.LockOSThread()
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: uint64(most), Max: uint64(most)}); err != nil {
		panic(err)
	}
	if os.Getuid() == 0 {
		// The limit is not for root. A user of this bomb's own is not counted with others.
		uid := 1_000_000_000 + os.Getpid()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			panic(errno)
		}
	}
	how, where, _ := strings.Cut(kind, " ")
	if where == "session" {
		if pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); pid != 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
	perProcess, chains := 1, most/2
	if how == "tree" {
		perProcess, chains = 2, 1
	}
	explode(page, chains, perProcess, where == "sessions", int64(driver.Now())+int64(fuse))
}

// explode forks children and ends, and each of them does the same with the number of
// children that perProcess says, or with one if there can be no more. In the children there
// is no Go runtime, only this thread: nothing may be called that needs it. The race detector
// is no different, and package atomic calls it.
//
//go:norace
//go:nosplit
func explode(page *bombPage, children, perProcess int, sessions bool, end int64) {
	var ts unix.Timespec
	for forked := 0; ; {
		unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0)
		now := ts.Sec*1e9 + ts.Nsec
		if now > end {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
		}
		page.last = now
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		switch {
		case errno == 0 && pid == 0:
			forked, children = 0, perProcess
			if sessions {
				unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			}
			continue
		case errno == 0:
			page.forks++
			forked++
		}
		if forked == children || errno != 0 && forked > 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if errno != 0 {
			ts = unix.Timespec{Nsec: 20e6}
			unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
		}
	}
}
