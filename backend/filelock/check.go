//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Check is called for interlock doctor, and for programs that ask whether their directory is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	return doctor.Examine(ctx, nil, slices.Concat(doctor.Use(s, doctor.Try, func(error) string { return "look at the disk and the permissions" })[:1], doctor.Files(s.dir.path, s.clock), []doctor.Check{
		{"names", "all rows can be read", s.checkNames},
		{"messages", "waiters are woken at once", s.checkMessages},
	})...)
}

// checkNames reads each row, and the floor.
func (s *store) checkNames(ctx context.Context) driver.Finding {
	names, bad := s.names(ctx, queues, "")
	_, err := s.floor(ctx, 0)
	bad.add(err)
	for _, name := range names {
		bad.ask(ctx, name, func(ctx context.Context) error { _, err := s.Read(ctx, name, exchange.Follower{}); return err })
	}
	of, more := s.names(ctx, cells, "")
	bad = append(bad, more...)
	for _, name := range of {
		bad.ask(ctx, name, func(ctx context.Context) error { _, err := s.Load(ctx, name, exchange.Follower{}); return err })
	}
	if len(bad) > 0 {
		return doctor.Warn("the locks and values of the rows that cannot be read", "see the detail", "%v", s.Explain(bad.err()))
	}
	return doctor.Sound
}

func (s *store) checkMessages(ctx context.Context) driver.Finding {
	for pause := time.Millisecond; s.receive.Load() == nil && ctx.Err() == nil && pause < 500*time.Millisecond; pause *= 2 {
		time.Sleep(pause) // the client has just been opened
	}
	if s.receive.Load() == nil {
		return doctor.Warn("waiters are woken at once: they poll", "use a directory with a shorter path, on a file system that has sockets", "no socket can be made in %s", s.dir.file(mailboxes, ""))
	}
	if !s.watch.sees() {
		return doctor.Warn("waiters behind another program, or a dead one, are woken at once: they poll", "on Linux, raise fs.inotify.max_user_instances",
			"this system does not tell when other programs unlock a file")
	}
	return doctor.Sound
}
