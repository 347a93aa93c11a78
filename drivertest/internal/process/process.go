// Package process starts copies of a test binary that serve as clients in
// processes of their own. What a copy does is its role, which a package of the
// suite registers.
package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
)

// variable names the role in the environment of a copy.
const variable = "INTERLOCK_DRIVERTEST_CLIENT"

var roles = map[string]func(io.ReadWriteCloser){}

// Role registers what a copy does with its standard input and output, until the
// other side hangs up.
func Role(name string, serve func(io.ReadWriteCloser)) { roles[name] = serve }

// Main plays the role, and does not return, if this process is a copy.
func Main() {
	name, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	serve := roles[name]
	if serve == nil {
		panic("no such role: " + name)
	}
	serve(pipes{os.Stdin, os.Stdout})
	os.Exit(0)
}

// pipes is a connection over two pipes.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// Process is a copy of the test binary.
type Process struct {
	Conn io.ReadWriteCloser // its standard input and output

	cmd  *exec.Cmd
	once sync.Once
	done error
	log  bytes.Buffer
}

// Start starts a copy, which inherits the files.
func Start(role string, files ...*os.File) (*Process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(path)}
	// The race detector would wait for a second at every exit.
	p.cmd.Env = append(os.Environ(), variable+"="+role, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
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
	p.Conn = pipes{out, in}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Wait waits until the process has exited, which it does when the other side
// has hung up.
func (p *Process) Wait() error {
	p.once.Do(func() {
		if err := p.cmd.Wait(); err != nil {
			p.done = errors.New("client process: " + err.Error() + "\n" + p.log.String())
		}
	})
	return p.done
}

// Kill ends the process as a crash does.
func (p *Process) Kill() {
	p.once.Do(func() {
		p.cmd.Process.Kill()
		p.Conn.Close()
		p.cmd.Wait()
	})
}
