//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/fileclock"
)

const everyLock = "every lock"

// Check is called for interlock doctor, and for programs that ask whether their directory is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	return doctor.Examine(ctx, []doctor.Check{
		{Name: "directory", Of: s.checkDirectory},
		{Name: "file system", Of: s.checkFilesystem},
		{Name: "rows", Of: s.checkRows},
		{Name: "names", Of: s.checkNames},
		{Name: "clock", Of: s.checkClock},
		{Name: "messages", Of: s.checkMessages},
	})
}

func failed(err error, remedy string) driver.Finding {
	return driver.Finding{Status: driver.Fail, Detail: err.Error(), Promise: everyLock, Remedy: remedy}
}

func (s *store) checkDirectory(context.Context) driver.Finding {
	if err := s.dir.checkPlace(); err != nil {
		return failed(err, "see the detail")
	}
	return doctor.Fine("%s: only those who share it can replace its files", s.dir.path)
}

func (s *store) checkFilesystem(context.Context) driver.Finding {
	return doctor.Filesystem(s.dir.path)
}

// checkRows writes a row, and removes it.
func (s *store) checkRows(ctx context.Context) driver.Finding {
	for _, useless := range []bool{false, true} {
		err := s.transact(ctx, queues, ".probe", &queue{}, func(x *tx) error {
			x.changed, x.durable, x.useless = true, true, useless
			return nil
		})
		if err != nil {
			return failed(s.Explain(err), "look at the disk and the permissions")
		}
	}
	return doctor.Fine("rows can be read and written")
}

// checkNames reads each row, and the floor.
func (s *store) checkNames(ctx context.Context) driver.Finding {
	names, bad := s.names(ctx, queues, "")
	_, err := s.floor(ctx, 0)
	bad.add(err)
	for _, name := range names {
		_, err := s.Read(ctx, name, exchange.Follower{})
		bad.add(err)
	}
	of, more := s.names(ctx, cells, "")
	bad = append(bad, more...)
	for _, name := range of {
		_, err := s.Load(ctx, name, exchange.Follower{})
		bad.add(err)
	}
	if len(bad) > 0 {
		return driver.Finding{Status: driver.Warn, Detail: s.Explain(bad.err()).Error(),
			Promise: "the locks and values of the rows that cannot be read", Remedy: "see the detail"}
	}
	return doctor.Fine("all rows can be read")
}

func (s *store) checkClock(context.Context) driver.Finding {
	if !fileclock.Steady {
		return driver.Finding{Status: driver.Warn, Detail: s.clock.String() + " can be set", Promise: "leases, when the clock is set",
			Remedy: "have the clock adjusted in small steps"}
	}
	return doctor.Fine("%v", s.clock)
}

func (s *store) checkMessages(ctx context.Context) driver.Finding {
	for pause := time.Millisecond; s.receive.Load() == nil && ctx.Err() == nil && pause < 500*time.Millisecond; pause *= 2 {
		time.Sleep(pause) // the client has just been opened
	}
	if s.receive.Load() == nil {
		return driver.Finding{Status: driver.Warn, Detail: fmt.Sprintf("no socket can be made in %s", s.dir.file(mailboxes, "")),
			Promise: "waiters are woken at once: they poll", Remedy: "use a directory with a shorter path, on a file system that has sockets"}
	}
	if !s.watch.sees() {
		return driver.Finding{Status: driver.Warn, Detail: "this system does not tell when other programs unlock a file",
			Promise: "waiters behind another program, or a dead one, are woken at once: they poll", Remedy: "on Linux, raise fs.inotify.max_user_instances"}
	}
	return doctor.Fine("waiters are woken at once")
}
