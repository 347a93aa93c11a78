//go:build !unix

package testserver

import (
	"errors"
	"os"
)

func pause(*os.Process) error       { return errors.ErrUnsupported }
func resume(*os.Process) error      { return errors.ErrUnsupported }
func terminate(p *os.Process) error { return p.Kill() }
