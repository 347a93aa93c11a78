//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// testJob is what the tests run under locks: job VERB FILE [ARG].
func testJob() {
	verb, file := os.Args[1], os.Args[2]
	switch verb {
	case "wait":
		got := make(chan os.Signal, 1)
		signal.Notify(got, syscall.SIGUSR1)
		must(os.WriteFile(file, nil, 0o600))
		<-got
	case "step":
		step(file)
	case "stay":
		stay(file, os.Args[3])
	case "note":
		note(file, os.Args[3])
	case "stubborn":
		stubborn(file)
	case "traced":
		traced(file)
	case "hard":
		hard(file, os.Args[3])
	default:
		must(fmt.Errorf("no such job: %s", verb))
	}
}

// stubborn is a command that does not end when a signal tells it to.
func stubborn(file string) {
	ctx, _ := untilSignal(context.Background())
	must(os.WriteFile(file, nil, 0o600))
	<-ctx.Done()
	must(os.WriteFile(file+"-again", nil, 0o600))
	select {}
}

// traced is a command that ignores TERM, with a child that a debugger has stopped: no signal but KILL does
// anything to that. It writes the pid of the child.
func traced(file string) {
	signal.Ignore(syscall.SIGTERM)
	runtime.LockOSThread() // the thread is the debugger
	child := exec.Command("sleep", "1000")
	child.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	must(child.Start())
	must(os.WriteFile(file, []byte(strconv.Itoa(child.Process.Pid)), 0o600))
	time.Sleep(time.Hour) // not select {}: of that the runtime says that it is a deadlock
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "job:", err)
		os.Exit(99)
	}
}

// step adds one to the number in a file, without any protection. It takes as long as a process that starts, so that two
// at a time lose steps.
func step(file string) {
	b, err := os.ReadFile(file)
	must(err)
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	must(err)
	time.Sleep(20 * time.Millisecond)
	must(os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600))
}

// stay is in a folder for a moment, and writes how many are. Until the folder
// has once been as full as it may be, it waits for that.
func stay(dir, full string) {
	want, err := strconv.Atoi(full)
	must(err)
	me := filepath.Join(dir, "in-"+strconv.Itoa(os.Getpid()))
	marker := filepath.Join(dir, "was-full")
	must(os.WriteFile(me, nil, 0o600))
	for end := time.Now().Add(busy.Bound(time.Minute)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		in, err := filepath.Glob(filepath.Join(dir, "in-*"))
		must(err)
		fmt.Println(len(in))
		if len(in) >= want {
			must(os.WriteFile(marker, nil, 0o600))
		}
		if _, err := os.Stat(marker); err == nil {
			break
		}
	}
	must(os.Remove(me))
}

// note appends a line: the kernel puts the lines of all processes in one order.
func note(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = f.WriteString(line + "\n")
	must(err)
	must(f.Close())
}

// hard notes lines for ever, ignores the signals that can be ignored, and has
// children in sessions of their own that do the same, one of them without a
// parent.
func hard(file, who string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	generation, _ := strconv.Atoi(os.Getenv("GENERATION"))
	if generation < 3 {
		child := exec.Command("/proc/self/exe", os.Args[1:]...)
		child.Args[0] = os.Args[0]
		child.Env = append(os.Environ(), fmt.Sprint("GENERATION=", generation+1))
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(child.Start())
		if generation == 1 {
			return // its child is an orphan
		}
	}
	for {
		note(file, who+" "+strconv.Itoa(generation))
		time.Sleep(time.Millisecond)
	}
}
