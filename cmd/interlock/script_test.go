//go:build linux

package main

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/interlock-go/interlock/internal/busy"
)

// status N COMMAND [ARG]… runs a command that must exit with N.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARG]…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if want, _ := strconv.Atoi(args[0]); got != want {
		ts.Fatalf("exit status %d, not %s", got, args[0])
	}
}

// await TEXT COMMAND [ARG]… repeats a command until its output has the text.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await TEXT COMMAND [ARG]…")
	}
	for end := time.Now().Add(busy.Bound(time.Minute)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := ts.Exec(args[1], args[2:]...); err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
	}
	ts.Fatalf("waited in vain for %q", args[0])
}
