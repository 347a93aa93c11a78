//go:build linux

package guard_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestExitCodeIsTheOneOfAShell(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		errtest.None(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	file("no-x", "", 0o644)
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"exit 0", 0, []string{"true"}},
		{"exit 3", 3, []string{"sh", "-c", "exit 3"}},
		{"exit 255", 255, []string{"sh", "-c", "exit 255"}},
		{"ended by TERM", 128 + 15, []string{"sh", "-c", "kill $$"}},
		{"ended by KILL", 128 + 9, []string{"sh", "-c", "kill -9 $$"}},
		{"ended by INT", 128 + 2, []string{"sh", "-c", "kill -INT $$"}},
		{"no such command", 127, []string{"no-such-command"}},
		{"no such file", 127, []string{dir + "/no-such-file"}},
		{"no interpreter", 127, []string{file("no-interpreter", "#!/no/such/file\n", 0o755)}},
		{"empty command", 127, []string{""}},
		{"not executable", 126, []string{file("plain", "exit 4", 0o644)}},
		{"not executable, in PATH", 126, []string{"no-x"}},
		{"a directory", 126, []string{dir}},
		{"a script without #!", 4, []string{file("script", "exit $1", 0o755), "4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := command(t, c.args...).start()
			if code := r.wait(); code != c.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, c.code, &r.errors)
			}
		})
	}
}

func TestNothingRunsAfterTheDeadline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	lost := errors.New("lost")
	for want, renewed := range map[error]func() (driver.Instant, error){
		guard.ErrLate: nil,
		lost:          func() (driver.Instant, error) { return 0, lost },
	} {
		_, err := guard.Start(guard.Spec{
			Args: []string{"touch", file}, TTL: time.Second, Deadline: driver.Now(), Renewed: renewed,
		})
		if err != want {
			t.Errorf("error %v, want %v", err, want)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("the command ran")
		}
	}
}

// Promise: a command that would be asked to end as soon as it is started is started when
// the lease has been renewed.
func TestACommandThatIsLateWaitsForARenewal(t *testing.T) {
	defer goleak.VerifyNone(t)
	renewals := 0
	job, err := guard.Start(guard.Spec{
		Args: []string{"true"}, TTL: time.Hour, Deadline: driver.Now(),
		Renewed: func() (driver.Instant, error) {
			if renewals++; renewals < 3 {
				return driver.Now().Add(time.Second), nil // that is too little as well
			}
			return driver.Now().Add(time.Hour), nil
		},
	})
	errtest.None(t, err)
	if got := within(t, "the job ends", job.Wait); got != (guard.Result{}) || renewals != 3 {
		t.Errorf("result %+v after %d renewals, want success after 3", got, renewals)
	}
}

// Promise: between the signals that are the caller's and those that go to the job there is
// none that is lost.
func TestNothingRunsIfTheCallerIsNotReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	why := errors.New("a signal has come")
	_, err := guard.Start(guard.Spec{
		Args: []string{"touch", file}, TTL: time.Hour, Deadline: driver.Now().Add(time.Hour),
		Ready: func() error {
			// It would end this process, and has come when the call returns, since a thread
			// sends it to itself.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGUSR1); err != nil {
				t.Error(err)
			}
			return why
		},
	})
	if err != why {
		t.Errorf("error %v, want %v", err, why)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}

func TestJobIsNotOverBeforeItsLeftoversAre(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	errtest.None(t, unix.Mkfifo(fifo, 0o600))
	r := command(t, "sh", "-c", `setsid -f sh -c 'read x <"$0"; echo "left $x"' "$0"; echo ended; : >"$0.ended"`, fifo).start()
	busy.Until(t, "the command ended", func() bool {
		for _, line := range r.processes() {
			if strings.HasPrefix(line, "sh -c setsid") {
				return false
			}
		}
		_, err := os.Stat(fifo + ".ended") // before that it may not have begun
		return err == nil
	})
	errtest.None(t, os.WriteFile(fifo, []byte("over\n"), 0))
	if code := r.wait(); code != 0 {
		t.Errorf("exit code %d, want the command's own", code)
	}
	if got := r.out.String(); got != "ended\nleft over\n" {
		t.Errorf("output %q", got)
	}
}

func TestLeftoversOfAnEndedCommandAreGoneByTheDeadline(t *testing.T) {
	t.Parallel()
	n, l := newNotebook(t), newLease(t)
	exe := errtest.Must(os.Executable())(t)
	r := command(t, "setsid", "-f", exe, string(n)).with(asDie, "command").under(l, longTTL).start()
	n.writing(t)
	deadline := l.ends(t, 4*time.Second)
	if code := r.wait(); code != 79 {
		t.Errorf("exit code %d, want 79", code)
	}
	gone(t, r, n, deadline)
}

func TestStopAndKillEndAJob(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		end    func(*guard.Job)
		want   guard.Result
	}{
		"Stop, obeyed": {
			`trap 'exit 7' TERM; echo >"$0"; while :; do sleep 0.01; done`,
			(*guard.Job).Stop, guard.Result{Cause: guard.Lost, Code: 7},
		},
		"Kill": {
			`trap '' TERM; echo >"$0"; while :; do sleep 0.01; done`,
			(*guard.Job).Kill, guard.Result{Cause: guard.Lost, Signal: unix.SIGKILL},
		},
		"Stop, then Kill": {
			`trap 'echo >"$0"' TERM; echo >"$0"; while :; do sleep 0.01; done`,
			func(j *guard.Job) { j.Stop(); j.Kill() }, guard.Result{Cause: guard.Lost, Signal: unix.SIGKILL},
		},
		"TERM": {
			`trap 'exit 7' TERM; echo >"$0"; while :; do sleep 0.01; done`,
			func(j *guard.Job) { j.Signal(unix.SIGTERM) }, guard.Result{Cause: guard.Ended, Code: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			file := filepath.Join(t.TempDir(), "ready")
			job, err := guard.Start(guard.Spec{
				Args: []string{"sh", "-c", c.script, file},
				TTL:  time.Hour, Deadline: driver.Now().Add(time.Hour),
			})
			errtest.None(t, err)
			busy.Until(t, "the job runs", exists(file))
			c.end(job)
			if got := within(t, "the job ends", job.Wait); got != c.want {
				t.Errorf("result %+v, want %+v", got, c.want)
			}
			if got := job.Wait(); got != c.want {
				t.Errorf("waited again: %+v", got)
			}
			// What comes too late is harmless.
			job.Deadline(driver.Now())
			job.Stop()
			job.Kill()
		})
	}
}
