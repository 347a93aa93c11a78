package drivertest

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/process"
	"github.com/interlock-go/interlock/drivertest/internal/remote"
)

// role is that of the copies of the test binary in which drivers live.
const role = "driver"

func init() {
	process.Role(role, func(conn io.ReadWriteCloser) { remote.Serve(conn, nil, works) })
}

// process starts another process, which ends with the rule.
func (t *trial) process(files ...*os.File) *process.Process {
	t.Helper()
	p, err := process.Start(role, files...)
	t.OK(err, "start a client process")
	t.Later(p.Kill)
	return p
}

// elsewhere is a driver in a process of its own.
type elsewhere struct {
	*remote.Driver
	process *process.Process
}

func (d *elsewhere) Close() error { return errors.Join(d.Driver.Close(), d.process.Wait()) }

// elsewhere opens a driver in a process of its own.
func (t *trial) elsewhere() *elsewhere {
	t.Helper()
	p := t.process()
	d, err := remote.Dial(t.Ctx, p.Conn, t.world.URL)
	t.OK(err, "open %s in another process", t.world.URL)
	return &elsewhere{d, p}
}

// inProcesses makes every client of the world a process.
func (w World) inProcesses() World {
	url := w.URL
	w.Open = func(ctx context.Context) (driver.Driver, error) {
		p, err := process.Start(role)
		if err != nil {
			return nil, err
		}
		d, err := remote.Dial(ctx, p.Conn, url)
		if err != nil {
			p.Kill()
			return nil, err
		}
		return &elsewhere{d, p}, nil
	}
	return w
}
