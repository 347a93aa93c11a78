//go:build linux

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a job, also one of another user, cannot give away the proof that its session lives: whatever
// it unlocks, the lock does not pass on before it has ended.
func TestAJobCannotUnlockTheProofOfLife(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"setpriv", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	for _, scheme := range []string{"file", "sqlite"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			url := scheme + ":" + filepath.Join(dir, "locks")
			job := []string{"sh", "-c", "for f in /proc/self/fd/*; do flock -u ${f##*/}; done 2>/dev/null; echo unlocked; exec sleep 60"}
			if os.Geteuid() == 0 {
				job = append([]string{"setpriv", "--reuid", "64301", "--regid", "64301", "--clear-groups"}, job...)
			} // else the job is this user's, which can do the same
			run := cli(t, url, append([]string{"run", "--ttl", "3s", "x", "--"}, job...)...)
			out, err := run.StdoutPipe()
			if err == nil {
				err = run.Start()
			}
			errtest.None(t, err)
			defer func() {
				_ = run.Process.Signal(syscall.SIGTERM)
				if _ = run.Wait(); t.Failed() {
					t.Logf("the job's interlock says: %s", run.Stderr)
				}
			}()
			if said, err := bufio.NewReader(out).ReadString('\n'); said != "unlocked\n" {
				t.Fatalf("the job says %q, %v", said, err)
			}
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				next := cli(t, url, "run", "-n", "x", "--", "true")
				if err := next.Run(); next.ProcessState.ExitCode() != 75 {
					t.Fatalf("beside the job: %v, %s", err, next.Stderr)
				}
			}
		})
	}
}

// Promise: the command of a fence, also one of another user, cannot let a larger token in, whatever it unlocks.
func TestACommandCannotUnlockItsFence(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"setpriv", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	file := filepath.Join(t.TempDir(), "fence")
	job := []string{"sh", "-c", "for f in /proc/self/fd/*; do flock -u ${f##*/}; done 2>/dev/null; echo unlocked >&2; exec sleep 60"}
	if os.Geteuid() == 0 {
		job = append([]string{"setpriv", "--reuid", "64301", "--regid", "64301", "--clear-groups"}, job...)
	} // else the job is this user's, which can do the same
	first := fences(t, 1, file, job...)
	first.until("it has unlocked what it can", func() bool { return strings.Contains(first.stderr(), "unlocked") })
	next := fences(t, 2, file, "touch", "done")
	next.until("it has the file open", func() bool { return opens(next.Process.Pid, file) })
	select {
	case <-next.over:
		t.Fatal("the command of the larger token ran beside that of the smaller one")
	case <-time.After(2 * time.Second):
	}
	_ = first.Process.Signal(syscall.SIGTERM)
	next.ends(0, soon)
}

// Promise: a pipe that is named as the file of the URL keeps nobody waiting.
func TestAPipeAsTheFileOfTheURLKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	errtest.None(t, syscall.Mkfifo(pipe, 0o600))
	done := make(chan error, 1)
	ls := cli(t, "", "ls", "--url-file", pipe)
	go func() { done <- ls.Run() }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("an empty pipe names a backend")
		}
	case <-time.After(busy.Bound(time.Minute)):
		_ = ls.Process.Kill()
		t.Error("it waits for the pipe")
	}
}

// Promise: a signal ends the wait for a pipe that is named as the file of the URL, and that nobody writes into.
func TestASignalEndsTheWaitForTheFileOfTheURL(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	errtest.None(t, syscall.Mkfifo(pipe, 0o600))
	silent := errtest.Must(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	defer silent.Close()
	for _, args := range [][]string{{"ls"}, {"run", "x", "--", "true"}, {"doctor"}, {"acquire", "--hold", "1m", "x"}} {
		s := start(t, "", append([]string{args[0], "--url-file", pipe}, args[1:]...)...)
		s.until("it reads the pipe", func() bool { return opens(s.Process.Pid, pipe) })
		_ = s.Process.Signal(syscall.SIGTERM)
		s.ends(exitSignal+int(syscall.SIGTERM), soon)
	}
}

// Promise: the output of a program can be the file of the URL, of each command, and is read once.
func TestThePipeOfAShellNamesTheBackend(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	url := testURL(t, "")
	for _, args := range []string{"ls --url-file", "run x --url-file", "acquire x --hold 1s --url-file", "doctor --url-file"} {
		job := ""
		if args[0] == 'r' {
			job = " -- true"
		}
		c := cli(t, "", args)
		c.Path, c.Args = "/bin/bash", []string{"bash", "-c", c.Path + " " + args + ` <(echo "$0")` + job, url}
		if err := c.Run(); err != nil {
			t.Errorf("%s: %v: %s", args, err, c.Stderr)
		}
	}
}
