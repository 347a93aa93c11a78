//go:build linux

package guard_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestJobInheritsWhatItWouldWithoutGuard(t *testing.T) {
	const look = `grep -E '^(Sig(Blk|Ign|Cgt)|Umask)' /proc/self/status; cat /proc/self/limits; pwd; env | grep -v -e ^GUARD_TEST -e '^_='; nice; cat /proc/self/oom_score_adj`
	for name, before := range map[string]string{
		"plainly":               "",
		"with signals ignored":  "trap '' HUP INT TSTP TTIN;",
		"with nohup":            "exec nohup ",
		"with limits":           "ulimit -S -n 300; ulimit -c 0; umask 027;",
		"in another folder":     "cd /usr;",
		"with fewer files open": "ulimit -n 64;",
	} {
		t.Run(name, func(t *testing.T) {
			run := `"$@"`
			plain := exec.Command("sh", "-c", before+run, "sh", "sh", "-c", look)
			plain.Env = os.Environ()
			want := output(t, plain)
			exe := errtest.Must(os.Executable())(t)
			r := command(t)
			guarded := exec.Command("sh", "-c", before+run, "sh", exe, "sh", "-c", look)
			guarded.Env = r.Env
			got := output(t, guarded)
			if got != want {
				t.Errorf("without guard:\n%s\nunder guard:\n%s", want, got)
			}
		})
	}
}

func TestDescriptorsOfTheCallerPassUntouched(t *testing.T) {
	dir := t.TempDir()
	exe := errtest.Must(os.Executable())(t)
	r := command(t)
	c := exec.Command("bash", "-c", `"$0" sh -c 'echo three >&3; read x <&7; echo $x >&9; echo hundred >/dev/fd/150; echo two-hundred >/dev/fd/201' 3>three 7<<<seven 9>nine 150>hundred 201>two-hundred`, exe)
	c.Env, c.Dir = r.Env, dir
	output(t, c)
	for file, want := range map[string]string{
		"three": "three\n", "nine": "seven\n", "hundred": "hundred\n", "two-hundred": "two-hundred\n",
	} {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", file, got, err, want)
		}
	}
}

func TestJobHasNoDescriptorButTheCallersAndTheLivenessFiles(t *testing.T) {
	const look = `for fd in /proc/$$/fd/*; do echo ${fd##*/}; done`
	want := append(strings.Fields(output(t, exec.Command("sh", "-c", look))), "202")
	slices.Sort(want)

	l := newLiveness(t)
	r := l.pass(command(t, "sh", "-c", look))
	r.wait()
	got := strings.Fields(r.out.String())
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("descriptors %v, want %v", got, want)
	}
}

func TestGuardAndWardenHoldNothingOfTheCallerButTheLivenessFiles(t *testing.T) {
	out, w, err := os.Pipe()
	errtest.None(t, err)
	l := newLiveness(t)
	r := command(t, "sh", "-c", `echo ready; exec sleep 1000`)
	r.Stdout, r.Stderr = w, nil
	r.ExtraFiles = make([]*os.File, 250)
	r.ExtraFiles[0], r.ExtraFiles[249] = w, w // the latter behind those of guard and warden
	l.pass(r)
	w.Close()
	ready(t, out)
	pipe := errtest.Must(os.Readlink("/proc/self/fd/" + strconv.Itoa(int(out.Fd()))))(t)
	for name, pid := range map[string]int{"guard": r.guard(), "warden": r.warden()} {
		proc := "/proc/" + strconv.Itoa(pid)
		holds := func() (all []string, caller bool) {
			entries, _ := os.ReadDir(proc + "/fd")
			for _, e := range entries {
				file, _ := os.Readlink(proc + "/fd/" + e.Name())
				all = append(all, e.Name()+" "+file)
				caller = caller || file == pipe
			}
			return all, caller
		}
		busy.Until(t, "the "+name+" lets go of the caller's output", func() bool { _, caller := holds(); return !caller })
		busy.Until(t, "the "+name+" leaves the caller's folder", func() bool {
			dir, _ := os.Readlink(proc + "/cwd")
			return dir == "/"
		})
		all, _ := holds()
		if !strings.Contains(strings.Join(all, "\n"), l.path) {
			t.Errorf("the %s does not hold %s: %v", name, l.path, all)
		}
	}
	r.Process.Signal(unix.SIGTERM)
	readAll(t, out) // ends when the last writer has
	r.wait()
}

// ready waits until a job has written "ready".
func ready(t *testing.T, out *os.File) {
	t.Helper()
	err := within(t, "the job is ready", func() error {
		_, err := io.ReadFull(out, make([]byte, len("ready\n")))
		return err
	})
	errtest.None(t, err)
}

func TestSignalsAreForwardedToTheCommand(t *testing.T) {
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH} {
		t.Run(unix.SignalName(s), func(t *testing.T) {
			out, w, err := os.Pipe()
			errtest.None(t, err)
			name := strings.TrimPrefix(unix.SignalName(s), "SIG")
			r := command(t, "sh", "-c", `trap 'echo got $0; exit 3' $0; echo ready; while :; do sleep 0.01; done`, name)
			r.Stdout = w
			r.start()
			w.Close()
			ready(t, out)
			r.Process.Signal(s)
			rest := readAll(t, out)
			if rest != "got "+name+"\n" {
				t.Errorf("the job wrote %q", rest)
			}
			if code := r.wait(); code != 3 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
