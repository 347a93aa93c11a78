//go:build !linux

package testserver

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"time"
)

// Reserve returns a port of the loopback interface that was free just now.
func Reserve() (port int, release func(), err error) {
	l, err := net.Listen("tcp", Address(0))
	if err != nil {
		return 0, nil, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, func() {}, nil
}

// bindToParent can do nothing here: a server outlives a test process that is killed.
func bindToParent(*exec.Cmd) {}

func pause(*os.Process) error  { return errors.ErrUnsupported }
func resume(*os.Process) error { return errors.ErrUnsupported }

// Runs does not know.
func Runs(int) bool { return false }

type clock struct{}

func newClock(string) (*clock, error) { return nil, errors.ErrUnsupported }
func (*clock) step(time.Duration)     {}
func (*clock) env() []string          { return nil }
