//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package filelock

import "github.com/interlock-go/interlock/driver"

const foreignID = "pid-"

// foreign knows nothing here: the kernel does not tell who has locked a file.
func (*store) foreign(*queue) []driver.Member { return nil }

func (*store) foreignNames(string) []string { return nil }
