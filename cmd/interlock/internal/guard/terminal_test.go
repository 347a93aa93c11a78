//go:build linux

package guard_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// a session is an interactive shell on a pseudo-terminal. In it, $G runs a
// command under guard.
type session struct {
	*run
	exe string
	tty *os.File

	mu   sync.Mutex
	seen bytes.Buffer // since the last expect
}

func newSession(t *testing.T, shell ...string) *session {
	t.Helper()
	errtest.Must(exec.LookPath(shell[0]))(t)
	exe := errtest.Must(os.Executable())(t)
	s := &session{run: command(t), exe: exe}
	s.Cmd = exec.Command(shell[0], shell[1:]...)
	s.Env = append(os.Environ(), mark+"="+s.mark, "PS1=$ ", "ENV=", "HISTFILE=", "TERM=dumb", "G=env "+asProgram+"=1 "+exe)
	s.open()
	s.expect(`\$ $`)
	return s
}

// open starts the session's command on a new terminal.
func (s *session) open() {
	s.t.Helper()
	var err error
	if s.tty, err = pty.Start(s.Cmd); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.tty.Close()
		s.Process.Kill()
		s.Wait()
		for pid, line := range s.processes() {
			if !strings.HasPrefix(line, "lock-") {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		busy.Until(s.t, "the session's processes are gone", func() bool { return len(s.processes()) == 0 })
	})
	go func() {
		for buf := make([]byte, 4096); ; {
			n, err := s.tty.Read(buf)
			s.mu.Lock()
			s.seen.Write(bytes.ReplaceAll(buf[:n], []byte("\r"), nil))
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
}

func (s *session) send(text string) {
	s.t.Helper()
	errtest.Must(s.tty.Write([]byte(text)))(s.t)
}

// expect waits until the terminal shows something that matches, and forgets
// all that it showed up to there.
func (s *session) expect(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		s.mu.Lock()
		text := s.seen.String()
		if at := re.FindStringIndex(text); at != nil {
			s.seen.Next(at[1])
			s.mu.Unlock()
			return text[:at[1]]
		}
		s.mu.Unlock()
		if time.Now().After(end) {
			var left strings.Builder
			for pid, line := range s.processes() {
				fmt.Fprintf(&left, "\n%d %s %s", pid, state(pid), line)
			}
			s.t.Fatalf("the terminal never showed %q, but %q; processes:%s", pattern, text, left.String())
		}
	}
}

// inFront waits until a process whose command line begins so runs in the
// terminal's foreground: what the terminal sends before that goes elsewhere.
func (s *session) inFront(command string) {
	s.t.Helper()
	busy.Until(s.t, command+" in the foreground", func() bool {
		front := errtest.Must(unix.IoctlGetInt(int(s.tty.Fd()), unix.TIOCGPGRP))(s.t)
		for pid, line := range s.processes() {
			group, _ := unix.Getpgid(pid)
			if strings.HasPrefix(line, command) && group == front && state(pid) != "T" {
				return true
			}
		}
		return false
	})
}

// program is the one that runs the job.
func (s *session) program() *os.Process {
	s.t.Helper()
	for pid, line := range s.processes() {
		if strings.HasPrefix(line, s.exe+" env") {
			p, _ := os.FindProcess(pid)
			return p
		}
	}
	s.t.Fatal("no program is running")
	return nil
}

// writer is the command line of a job that writes into the notebook.
func (s *session) writer(n notebook) string {
	return fmt.Sprintf("$G env '%s=at once' %s %s", asDie, s.exe, n)
}

// shells runs a test in the shells that people have.
func shells(t *testing.T, f func(t *testing.T, s *session)) {
	for name, shell := range map[string][]string{
		"bash": {"bash", "--norc", "--noprofile", "--noediting", "-i"},
		"sh":   {"dash", "-i"},
	} {
		t.Run(name, func(t *testing.T) { f(t, newSession(t, shell...)) })
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
	ctrlD = "\x04"
)

func TestJobReadsTheTerminal(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("$G sh -c 'read x; echo got $x; read x </dev/tty; echo got $x; exit 5'; echo code $?\n")
		s.send("some words\n")
		s.expect("got some words\n")
		s.send("more\n")
		s.expect("got more\n")
		s.expect("code 5\n")
	})
}

func TestJobReadsTheTerminalWhileItsInputIsAPipe(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("echo piped | $G sh -c 'read x; echo got $x; read x </dev/tty; echo got $x'; echo code $?\n")
		s.expect("got piped\n")
		s.send("words\n")
		s.expect("got words\n")
		s.expect("code 0\n")
	})
}

func TestCtrlCEndsTheJob(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("$G cat\nready\n")
		s.expect(`(?s)ready\n.*ready\n`) // the echo, and the job
		s.send(ctrlC)
		s.expect(`\^C\n\$ $`)
		s.send("echo code $?\n")
		s.expect("code 130\n")
	})
}

func TestCtrlCEndsTheLoopAroundTheJob(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("while :; do $G cat; done\nready\n")
		s.expect(`(?s)ready\n.*ready\n`) // the echo, and the job
		s.send(ctrlC)
		s.expect(`\^C\n\$ $`)
	})
}

func TestCtrlCIsDeliveredOnce(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send(fmt.Sprintf("$G env %s=1 %s; echo code $?\n", asListener, s.exe))
		s.expect("ready\n")
		s.send(ctrlC)
		s.expect("caught interrupt\n")
		// Signals are passed on one after the other: behind this one nothing is under way.
		s.program().Signal(unix.SIGUSR1)
		if got := s.expect("caught user defined signal 1\n"); strings.Contains(got, "interrupt") {
			t.Errorf("the job was interrupted twice: %q", got)
		}
		s.send(ctrlD)
		s.expect("code 0\n")
	})
}

func TestCtrlZStopsAndFgContinues(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("$G sh -c 'echo ready; read x; echo got $x; exit 4'; echo code $?\n")
		s.expect("ready\n")
		for range 3 {
			s.inFront("sh -c")
			s.send(ctrlZ)
			s.expect(`\[1\].*(Stopped|Suspended)`)
			s.send("echo pr''ompt; jobs\n")
			s.expect(`prompt\n(.*\n)?.*(Stopped|Suspended)`)
			s.send("fg; echo code $?\n")
		}
		s.inFront("sh -c")
		s.send("words\n")
		s.expect("got words\n")
		s.expect("code 4\n")
	})
}

func TestBgContinuesAJob(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		n := newNotebook(t)
		s.send(s.writer(n) + "\n")
		n.grows(t)
		s.send(ctrlZ)
		s.expect(`\[1\].*(Stopped|Suspended)`)
		s.send("bg\n")
		n.grows(t)
		s.send("kill %1; wait %1; echo code $?\n")
		s.expect(`code 143\n`)
	})
}

// beSlow has this process get signals late: the thread that the kernel gives them to runs when
// nothing else does, and something always does.
func beSlow() {
	_ = unix.SchedSetAttr(os.Getpid(), &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
	for range runtime.NumCPU() {
		go func() {
			for n := 0; n >= 0; n++ {
			}
		}()
	}
}

// A terminal stops the job and the program at once, but a busy program has the signal late: when the
// job goes on in the background, it is not taken for one that somebody sends there.
func TestAStopOfATerminalStopsTheJobOnce(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("export " + slowly + "=1\n")
		// A shell that waits in vfork for a child that was stopped would never stop itself.
		s.send("$G bash -c 'while echo tick; do for ((i = 0; i < 5000; i++)); do :; done; done'\n")
		for range 6 {
			s.expect("tick\n")
			s.send(ctrlZ)
			s.expect(`\[1\].*(Stopped|Suspended)`)
			s.send("bg\n")
			for range 20 {
				s.expect("tick\n")
			}
			s.send("fg\n")
			s.inFront(s.exe + " bash")
		}
		s.send(ctrlC)
		s.send("echo code $?\n")
		s.expect(`code 130\n`)
	})
}

func TestJobThatCatchesTheStopIsNotLeftBehind(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send(`$G bash -c 'trap "echo not now" TSTP; echo ready; while read -r x; do echo line $x; done'; echo code $?` + "\n")
		s.expect("ready\n")
		s.send(ctrlZ + "a\n")
		s.expect("line a\n")
		s.send(ctrlD)
		s.expect(`code \d+\n`)
	})
}

func TestSuspendedJobThatLostItsLeaseDoesNotContinue(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *session) {
		s.send(testTTL + `=4s $G bash -c 'trap "echo con""tinued" CONT; echo ready; while :; do sleep 0.01; done'` + "\n")
		s.expect("ready\n")
		s.send(ctrlZ)
		s.expect(`\[1\].*(Stopped|Suspended)`)
		busy.Until(t, "the job is gone", func() bool {
			for _, line := range s.processes() {
				if strings.HasPrefix(line, "bash -c") || strings.HasPrefix(line, "lock-") {
					return false
				}
			}
			return true
		})
		s.send("fg; echo code $?\n")
		if got := s.expect("code 79\n"); strings.Contains(got, "continued") {
			t.Errorf("the job ran without a lease: %q", got)
		}
	})
}

func TestJobWithoutTerminalButInItsForegroundIsInterruptedAsAWhole(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("$G bash -c '(echo ready >/dev/tty; exec cat /dev/zero) | cat' </dev/null >/dev/null 2>&1; echo code $?\n")
		s.expect("ready\n")
		s.send(ctrlC)
		s.expect("code 130\n")
	})
}

func TestJobWithoutTerminalIsStoppedAndContinued(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		n := newNotebook(t)
		s.send(s.writer(n) + " </dev/null >/dev/null 2>&1; echo code $?\n")
		n.grows(t)
		s.send(ctrlZ)
		s.expect(`\[1\].*(Stopped|Suspended)`)
		s.send("fg; echo code $?\n")
		s.inFront(s.exe + " env")
		n.grows(t)
		s.send(ctrlC)
		s.expect("code 130\n")
	})
}

func TestPipelineEndsWithTheJob(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("$G sh -c 'echo one; echo two' | cat; echo code $?\n")
		s.expect("one\ntwo\ncode 0\n")
		s.send("$G cat | cat\nready\n")
		s.expect(`(?s)ready\n.*ready\n`) // the echo, and the job
		s.send(ctrlC)
		s.expect(`\^C\n\$ $`)
	})
}

func TestTheRestOfAPipelineOutlivesAJobThatIsKilled(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *session) {
		l := newLease(t)
		s.send(fmt.Sprintf("%s=2s %s=%s $G sh -c 'trap \"\" TERM; echo ready; while :; do sleep 0.01; done' | sh -c 'while read -r x; do echo got $x; done; echo out\"\"lived'\n", testTTL, leaseFolder, l))
		s.expect("got ready\n")
		l.ends(t, time.Second)
		s.expect("outlived\n")
	})
}

func TestAnInteractiveShellWorksAsAJob(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("PS1='inner> ' $G bash --norc --noprofile --noediting -i; echo code $?\n")
		s.expect("inner> $")
		s.send("sleep 1000\n")
		s.inFront("sleep 1000")
		s.send(ctrlZ)
		s.expect(`Stopped(.*\n)*inner> $`)
		s.send("suspend -f\n")
		s.expect(`Stopped(.*\n)*.*\$ $`)
		s.send("fg; echo code $?\n")
		s.expect("inner> $")
		s.send("fg\n")
		s.inFront("sleep 1000")
		s.send(ctrlC)
		s.expect(`\^C\ninner> $`)
		s.send("exit 9\n")
		s.expect("code 9\n")
		s.send("echo st''ill here\n")
		s.expect("still here\n")
	})
}

func TestTerminalIsLeftAsItWasFound(t *testing.T) {
	t.Parallel()
	shells(t, func(t *testing.T, s *session) {
		s.send("stty -a; echo be''fore\n")
		want := s.expect("before\n")
		l := newLease(t)
		s.send(fmt.Sprintf("%s=2s %s=%s $G sh -c 'trap : TERM; stty raw -echo; echo re\"\"ady; while :; do sleep 0.01; done'; stty -a; echo af''ter\n", testTTL, leaseFolder, l))
		s.expect("ready\n")
		l.ends(t, time.Second)
		s.expect("cause: lost\n")
		got := s.expect("after\n")
		_, want, _ = strings.Cut(want, "\n") // without the echo of the command
		if want, got := strings.TrimSuffix(want, "before\n"), strings.TrimSuffix(got, "after\n"); got != want {
			t.Errorf("before:\n%s\nafter:\n%s", want, got)
		}
	})
}

func TestJobAtATerminalIsGoneHoweverItsGroupIsTreated(t *testing.T) {
	for name, signal := range map[string]unix.Signal{"killed": unix.SIGKILL, "stopped": unix.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			n, l := newNotebook(t), newLease(t)
			s := newSession(t, "bash", "--norc", "--noprofile", "--noediting", "-i")
			s.send(fmt.Sprintf("%s=%v %s=%s $G env %s=command %s %s\n", testTTL, longTTL, leaseFolder, l, asDie, s.exe, n))
			s.inFront(s.exe + " env")
			n.writing(t)
			group := s.program().Pid
			deadline := l.ends(t, 5*time.Second)
			errtest.None(t, unix.Kill(-group, signal))
			busy.Until(t, "the job is gone", func() bool {
				left := s.processes()
				delete(left, s.Process.Pid)
				delete(left, group)
				return len(left) == 0
			})
			if _, last := n.read(t); last >= deadline {
				t.Errorf("the job wrote %v after it had to be gone", last.Sub(deadline))
			}
		})
	}
}

func TestCtrlZHasNoEffectWhereNobodyCouldContinueTheJob(t *testing.T) {
	// The program leads the session itself, as a terminal emulator starts it.
	s := &session{run: command(t, "cat")}
	s.SysProcAttr = nil
	s.Stdout, s.Stderr = nil, nil
	s.open()
	s.inFront("cat")
	s.send(ctrlZ)
	s.expect(`\^Z`)
	s.send("words\n")
	s.expect("words\nwords\n")
	s.send(ctrlD)
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestCtrlCEndsWhatIsLeftOfAJob(t *testing.T) {
	shells(t, func(t *testing.T, s *session) {
		s.send("$G setsid -f sleep 1000\n")
		busy.Until(t, "only a process of another session is left", func() bool {
			for pid, line := range s.processes() {
				if session, _ := unix.Getsid(pid); line == "sleep 1000 " && session == pid {
					return true
				}
			}
			return false
		})
		// The program may not know yet that the command has ended.
		busy.Until(t, "only the shell is left", func() bool {
			s.send(ctrlC)
			time.Sleep(10 * time.Millisecond)
			return len(s.processes()) == 1
		})
	})
}

// listen is a job that says which signals it gets, until its input ends. A shell's read
// does not say so if the signal comes just before it.
func listen() {
	caught := make(chan os.Signal, 10)
	signal.Notify(caught, unix.SIGINT, unix.SIGUSR1)
	go func() {
		for s := range caught {
			fmt.Println("caught", s)
		}
	}()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
