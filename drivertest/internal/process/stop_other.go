//go:build !unix

package process

import "errors"

func (p *Process) Stop() error   { return errors.ErrUnsupported }
func (p *Process) Resume() error { return errors.ErrUnsupported }
