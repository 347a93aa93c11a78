//go:build !linux

package etcdtest

import "errors"

func (s *Server) traced() (bool, error) { return false, errors.New("strace is of Linux") }
