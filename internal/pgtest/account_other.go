//go:build !unix

package pgtest

import "os/exec"

type account struct{}

func unprivileged() (account, error) { return account{}, nil }
func (account) use(*exec.Cmd)        {}
func (account) own(string) error     { return nil }
func (account) admit(string) error   { return nil }
