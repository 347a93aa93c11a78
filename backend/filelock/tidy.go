//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
)

// aDay is how old a file is that Tidy removes.
const aDay = 24 * time.Hour

// Tidy removes what dead processes have left: files of sessions, and sockets.
func (s *store) Tidy(ctx context.Context) ([]string, error) {
	err := s.old(ctx, lives, func(name string) bool { return s.dead(exchange.Session{ID: name}) })
	return nil, errors.Join(err, s.old(ctx, mailboxes, func(name string) bool {
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.sockets + "/" + name, Net: "unixgram"})
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}))
}

// old removes the old files of a folder that nobody has.
func (s *store) old(ctx context.Context, folder string, deserted func(name string) bool) error {
	files, err := os.ReadDir(s.dir.file(folder, ""))
	for _, f := range files {
		st, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(st.ModTime()) < aDay {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && deserted(f.Name()) {
			_ = os.Remove(s.dir.file(folder, f.Name()))
		}
	}
	return err
}
