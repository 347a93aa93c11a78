//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the user as whom servers run; the zero one is that of the test.
type account struct{ credential *syscall.Credential }

// unprivileged is the account of this process, unless it is root.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

// use has a command run as this user.
func (a account) use(cmd *exec.Cmd) {
	if a.credential == nil {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = a.credential
}

// own gives a file to this user.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// admit gives a folder to this user, and lets others pass through the temporary
// folders above it.
func (a account) admit(dir string) error {
	if a.credential == nil {
		return nil
	}
	if err := a.own(dir); err != nil {
		return err
	}
	for up := filepath.Dir(dir); strings.HasPrefix(up, os.TempDir()+"/"); up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return err
		}
		if err := os.Chmod(up, info.Mode().Perm()|0o011); err != nil {
			return err
		}
	}
	return nil
}
