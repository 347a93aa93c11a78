//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }

// inFront reports whether this process may write to a terminal without disturbing what is in
// front there: it is not in the background of that.
func inFront(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// own refuses a folder below base, which both need not exist yet, that would be another
// user's to replace. That is so under sudo, if it keeps HOME.
func own(base, dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		switch st, err := os.Stat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		default:
			if uid := st.Sys().(*syscall.Stat_t).Uid; uid != 0 && uid != uint32(os.Geteuid()) {
				return fmt.Errorf("%s belongs to another user (uid %d); set HOME to your own (sudo -H)", dir, uid)
			}
		}
		if len(dir) <= len(base) {
			return nil
		}
	}
}

// untilUnread returns a context that ends, as by SIGPIPE, when nobody can read any more what
// is written to w: a pipe whose reader has gone. A command that waits for something to write
// would not find out. The function ends the context.
func untilUnread(ctx context.Context, w any) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if f, ok := w.(descriptor); ok {
		fd := int32(f.Fd())
		go func() {
			for ctx.Err() == nil {
				pipe := []unix.PollFd{{Fd: fd}} // what is not asked for: that it is broken
				n, err := unix.Poll(pipe, int(time.Second.Milliseconds()))
				switch {
				case err == unix.EINTR:
				case err != nil:
					return // then a write will tell
				case n > 0:
					cancel(signalled{syscall.SIGPIPE})
				}
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// signalNamed takes TERM, SIGTERM or sigterm.
func signalNamed(name string) (syscall.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if s := unix.SignalNum(full); s != 0 {
		return s, nil
	}
	return 0, fmt.Errorf("unknown signal %q", name)
}

// signalNames are those that programs may be sent, without SIG.
func signalNames() (names []string) {
	for s := syscall.Signal(1); s < 32; s++ {
		if name := unix.SignalName(s); name != "" && s != syscall.SIGKILL && s != syscall.SIGSTOP {
			names = append(names, strings.TrimPrefix(name, "SIG"))
		}
	}
	return names
}
