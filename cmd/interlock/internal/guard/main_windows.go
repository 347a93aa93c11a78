package guard

import (
	"encoding/gob"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Main is the guard itself. A program that uses [Start] calls it first thing in
// main: in a process that was started as a guard it does not return, in every
// other it does nothing.
//
// On Windows nothing asks a job to end: it is killed shortly before the
// deadline, or at once when the program has died. The function is not called.
func Main(func(giveBack []byte)) {
	if len(os.Args) < 3 || os.Args[0] != guardName {
		return
	}
	in, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err != nil {
		return
	}
	out, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err != nil {
		return
	}
	os.Exit(guardJob(os.NewFile(uintptr(in), "orders"), os.NewFile(uintptr(out), "reports")))
}

func guardJob(in, out *os.File) int {
	for _, f := range []*os.File{in, out} {
		windows.SetHandleInformation(windows.Handle(f.Fd()), windows.HANDLE_FLAG_INHERIT, 0)
	}
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	orders, reports := gob.NewDecoder(in), gob.NewEncoder(out)
	var c config
	if err := orders.Decode(&c); err != nil {
		return 1 // the program died before the job began
	}
	family, err := newFamily()
	var command *os.Process
	var timer *alarm
	if err == nil {
		timer, err = newAlarm()
	}
	if err == nil {
		var inherit []syscall.Handle
		for _, h := range c.Liveness {
			inherit = append(inherit, syscall.Handle(h))
		}
		command, err = os.StartProcess(c.Path, c.Args, &os.ProcAttr{
			Env:   c.Env,
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
			Sys:   &syscall.SysProcAttr{AdditionalInheritedHandles: inherit},
		})
	}
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EINVAL
		}
		reports.Encode(report{Kind: failed, Errno: errno})
		return 1
	}
	reports.Encode(report{Kind: started, N: command.Pid})
	os.Stdin.Close()
	os.Stdout.Close()
	os.Stderr.Close()

	queue := make(chan order)
	go func() {
		defer close(queue)
		for {
			var o order
			if orders.Decode(&o) != nil {
				return
			}
			queue <- o
		}
	}()
	exit := make(chan int, 1)
	go func() {
		state, err := command.Wait()
		if err != nil {
			exit <- 1
			return
		}
		exit <- state.ExitCode()
	}()

	// The job object has no event for "empty" that is not lost on the way; what
	// is left after the command's end is looked for.
	const look = 20 * time.Millisecond
	plan := schedule{ttl: time.Duration(c.TTL), deadline: c.Deadline}
	over := false
	for kill := false; ; {
		if now() >= plan.killAt() && !kill {
			kill = true
			reports.Encode(report{Kind: losing})
		}
		if kill {
			family.kill()
		} else {
			timer.set(plan.killAt())
		}
		var again <-chan time.Time
		if kill || over {
			if over && family.empty() {
				break
			}
			again = time.After(look)
		}
		select {
		case o, ok := <-queue:
			switch {
			case !ok:
				queue, kill = nil, true
			case o.Kind == setDeadline:
				plan.deadline = o.At
			case o.Kind == stopJob, o.Kind == killJob, o.Kind == sendSignal && o.Signal == syscall.SIGKILL:
				kill = true
				reports.Encode(report{Kind: losing})
			}
		case code := <-exit:
			over = true
			reports.Encode(report{Kind: ended, N: code})
		case <-timer.C:
		case <-again:
		}
	}
	reports.Encode(report{Kind: gone})
	return 0
}

// family is a job object that holds this process and all that descend from it.
// The system kills them when this process, which has the only handle, ends.
type family struct{ handle windows.Handle }

func newFamily() (*family, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return nil, err
	}
	return &family{h}, windows.AssignProcessToJobObject(h, windows.CurrentProcess())
}

// processList is JOBOBJECT_BASIC_PROCESS_ID_LIST with room for many.
type processList struct {
	Assigned, Listed uint32
	Pids             [4096]uintptr
}

func (f *family) others() (pids []uint32, err error) {
	list := new(processList)
	err = windows.QueryInformationJobObject(f.handle, windows.JobObjectBasicProcessIdList,
		uintptr(unsafe.Pointer(list)), uint32(unsafe.Sizeof(*list)), nil)
	if err != nil && err != windows.ERROR_MORE_DATA {
		return nil, err
	}
	for _, pid := range list.Pids[:list.Listed] {
		if int(pid) != os.Getpid() {
			pids = append(pids, uint32(pid))
		}
	}
	return pids, nil
}

func (f *family) empty() bool {
	pids, err := f.others()
	return err == nil && len(pids) == 0
}

var isProcessInJob = windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob")

func (f *family) kill() {
	pids, _ := f.others()
	for _, pid := range pids {
		h, err := windows.OpenProcess(windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
		if err != nil {
			continue
		}
		// The pid may have become another's since the list was made; what the
		// handle stands for cannot.
		var ours int32
		isProcessInJob.Call(uintptr(h), uintptr(f.handle), uintptr(unsafe.Pointer(&ours)))
		if ours != 0 {
			windows.TerminateProcess(h, 1)
		}
		windows.CloseHandle(h)
	}
}
