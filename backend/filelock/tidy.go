//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
)

// aDay is how old a file is that Tidy removes.
const aDay = 24 * time.Hour

// idleFor is how long nobody has written a row that Tidy removes.
const idleFor = 5 * time.Minute

// Tidy removes rows that say nothing, and what dead processes have left: files of sessions, and
// sockets.
func (s *store) Tidy(ctx context.Context) ([]string, error) {
	err := s.old(ctx, lives, exchange.IsID, func(name string) bool {
		free, _ := s.deserted(name)
		return free
	})
	return nil, errors.Join(s.forget(ctx, idleFor), err, s.old(ctx, mailboxes, exchange.IsMailbox, func(name string) bool {
		return errors.Is(s.dir.in(mailboxes).Send(s.sender, name, []byte("{}")), syscall.ECONNREFUSED)
	}))
}

// forget removes rows of queues, after those that the last call has looked at. The floor is raised to
// their tokens. A token that is ahead of the clock stays where it is: it may have been raised for this
// queue alone.
func (s *store) forget(ctx context.Context, idle time.Duration) error {
	from, _ := s.tidied.Load().(string)
	next, err := s.page(ctx, queues, "", from, nil, func(ctx context.Context, name string) error {
		st, _ := s.dir.in(queues).Root.Lstat(escape(name))
		if st == nil || time.Since(st.ModTime()) < idle {
			return nil
		}
		return s.change(ctx, name, func(q *queue) (err error) {
			if !q.Says() && !q.Unlocking.After(q.now) && q.Token <= clockToken() {
				_, err = s.floor(ctx, q.Token)
				q.useless = err == nil
			}
			return err
		})
	})
	s.tidied.Store(next)
	return err
}

// old removes the old files of a folder that nobody has, if clients have given them their names.
func (s *store) old(ctx context.Context, folder string, ours, deserted func(name string) bool) error {
	in, err := s.dir.current(folder)
	if err != nil {
		return err
	}
	files, err := in.List()
	for _, name := range files {
		st, _ := in.Root.Lstat(name)
		if st == nil || st.IsDir() || !ours(name) || time.Since(st.ModTime()) < aDay {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if deserted(name) {
			_ = in.Root.Remove(name)
		}
	}
	return err
}
