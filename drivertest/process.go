package drivertest

import (
	"bytes"
	"context"
	"errors"
	"net/rpc"
	"os"
	"os/exec"
	"sync"

	"github.com/interlock-go/interlock/driver"
)

// process is a copy of the test binary that serves as another client.
type process struct {
	cmd  *exec.Cmd
	rpc  *rpc.Client
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
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.rpc = rpc.NewClient(stdio{out, in})
	return p, nil
}

// end hangs up, and the process exits.
func (p *process) end() error {
	p.once.Do(func() {
		p.rpc.Close()
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
		p.rpc.Close()
		p.cmd.Wait()
	})
}

// process starts another process, which ends with the rule.
func (t *T) process(files ...*os.File) *process {
	t.Helper()
	p, err := startProcess(files...)
	if err != nil {
		t.Fatalf("start a client process: %v", err)
	}
	t.closers = append(t.closers, func() error { p.kill(); return nil })
	return p
}

// elsewhere opens a driver in a process of its own.
func (t *T) elsewhere() *remote {
	t.Helper()
	d, err := t.process().dial(t.ctx, t.world.URL)
	if err != nil {
		t.Fatalf("open %s in another process: %v", t.world.URL, err)
	}
	return d
}

// inProcesses makes every client of the world a process.
func (w World) inProcesses() World {
	url := w.URL
	w.Open = func(ctx context.Context) (driver.Driver, error) {
		p, err := startProcess()
		if err != nil {
			return nil, err
		}
		d, err := p.dial(ctx, url)
		if err != nil {
			p.kill()
			return nil, err
		}
		return d, nil
	}
	return w
}
