package testserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing/fstest"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
)

// Address is a port of the loopback interface.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Find returns the path of a program, which may be in one of the folders instead of the PATH. Its error names the
// packages of Debian that have it.
func Find(program, packages string, folders ...string) (string, error) {
	path, err := exec.LookPath(program)
	for _, dir := range folders {
		if err != nil {
			path, err = exec.LookPath(filepath.Join(dir, program))
		}
	}
	if err != nil {
		return "", fmt.Errorf("install %s (on Debian: apt-get install %s): %w", program, packages, err)
	}
	return path, nil
}

// Process is a child whose end can be waited for by many.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Begin runs the command. On Linux the child dies with the thread that has
// started it: that thread stays here, to wait for the child.
func Begin(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	bindToParent(cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends the process, also one that is paused or has ended already.
func (p *Process) Kill() { p.end(os.Kill) }

// Terminate lets the process end in good order.
func (p *Process) Terminate() { p.end(syscall.SIGTERM) }

// patience is how long a server may take to end in good order, on a busy machine with a
// slow disk. Of one that is killed instead, processes may be left that are in the way of
// its next start.
const patience = time.Minute

// end asks the process to end, which one that is paused can only after it goes on, and kills it if that takes too long.
func (p *Process) end(ask os.Signal) {
	if ask != os.Kill {
		_ = p.Resume()
	}
	if p.cmd.Process.Signal(ask) != nil {
		_ = p.cmd.Process.Kill() // here is no such signal, or the process has ended
	}
	timer := time.NewTimer(busy.Bound(patience))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Pause stops the process with a signal: it keeps all that it has, and does
// nothing until Resume.
func (p *Process) Pause() error { return pause(p.cmd.Process) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return resume(p.cmd.Process) }

// Prepared makes the data of servers that have never run, once: in a temporary folder, as the folder that make returns.
func Prepared(prepare func(dir string) (folder string, err error)) func() (fs.FS, error) {
	return sync.OnceValues(func() (fs.FS, error) {
		dir, err := os.MkdirTemp("", "prepared-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		folder, err := prepare(dir)
		if err != nil {
			return nil, err
		}
		return readFolder(folder)
	})
}

// readFolder keeps a folder in memory, such as the data of a server that has never run: nothing is left on the disk
// when the process ends. [os.CopyFS] writes it.
func readFolder(dir string) (fs.FS, error) {
	all := fstest.MapFS{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		f := &fstest.MapFile{Mode: d.Type()}
		if !d.IsDir() {
			f.Data, err = os.ReadFile(path)
		}
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = f
		return err
	})
	return all, err
}

// Until looks again and again until there is a result or an error.
func Until(ready func() (bool, error)) error {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if ok, err := ready(); ok || err != nil {
			return err
		}
		if time.Since(began) > busy.Bound(2*time.Minute) {
			return errors.New("nothing has happened for minutes")
		}
		time.Sleep(pause)
	}
}

// Tail is the end of a file: what a server has said last, without the stacks of its
// exceptions, among which the failure itself would be hard to find.
func Tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	var kept strings.Builder
	for line := range strings.Lines(string(b[max(0, len(b)-16*most):])) {
		if !strings.HasPrefix(line, "\tat ") {
			kept.WriteString(line)
		}
	}
	text := kept.String()
	return text[max(0, len(text)-most):]
}
