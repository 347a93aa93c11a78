package drivertest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/remote"
)

// process is a copy of the test binary that serves as another client.
type process struct {
	cmd  *exec.Cmd
	conn stdio
	once sync.Once
	done error
	log  bytes.Buffer
}

func startProcess(files ...*os.File) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path)}
	// The race detector would wait for a second at every exit.
	p.cmd.Env = append(os.Environ(), asClient+"=1", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	p.cmd.Stderr = &p.log
	p.cmd.ExtraFiles = files
	if p.conn.WriteCloser, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.conn.Reader, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// wait waits until the process has exited, which it does when its driver has
// hung up.
func (p *process) wait() error {
	p.once.Do(func() {
		if err := p.cmd.Wait(); err != nil {
			p.done = errors.New("client process: " + err.Error() + "\n" + p.log.String())
		}
	})
	return p.done
}

// kill ends the process as a crash does.
func (p *process) kill() {
	p.once.Do(func() {
		p.cmd.Process.Kill()
		p.conn.Close()
		p.cmd.Wait()
	})
}

// process starts another process, which ends with the rule.
func (t *trial) process(files ...*os.File) *process {
	t.Helper()
	p, err := startProcess(files...)
	if err != nil {
		t.Fatalf("start a client process: %v", err)
	}
	t.closers = append(t.closers, func() error { p.kill(); return nil })
	return p
}

// elsewhere is a driver in a process of its own.
type elsewhere struct {
	*remote.Driver
	process *process
}

func (d *elsewhere) Close() error { return errors.Join(d.Driver.Close(), d.process.wait()) }

// elsewhere opens a driver in a process of its own.
func (t *trial) elsewhere() *elsewhere {
	t.Helper()
	p := t.process()
	d, err := remote.Dial(t.ctx, p.conn, t.world.URL)
	if err != nil {
		t.Fatalf("open %s in another process: %v", t.world.URL, err)
	}
	return &elsewhere{d, p}
}

// inProcesses makes every client of the world a process.
func (w World) inProcesses() World {
	url := w.URL
	w.Open = func(ctx context.Context) (driver.Driver, error) {
		p, err := startProcess()
		if err != nil {
			return nil, err
		}
		d, err := remote.Dial(ctx, p.conn, url)
		if err != nil {
			p.kill()
			return nil, err
		}
		return &elsewhere{d, p}, nil
	}
	return w
}
