//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"os"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/folder"
)

// live makes the file of a session, which proves that the session lives.
func (s *store) live(id string) (*os.File, error) {
	in, err := s.dir.current(lives)
	if err != nil {
		return nil, err
	}
	f, err := in.Make(id)
	if err != nil {
		return nil, named(s.dir.file(lives, id), err)
	}
	if err := folder.Prove(f); err != nil {
		f.Close()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives == nil {
		f.Close()
		return nil, errClosed
	}
	s.lives[id] = f
	return f, nil
}

// copied reports whether another file has the name of the session's: the directory was replaced by a copy.
// That file has no lock, so the death of the process would not be noticed.
func (s *store) copied(id string) bool {
	in, err := s.dir.current(lives)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.lives[id]
	if f == nil {
		return false
	}
	named, err := in.Root.Lstat(id)
	if err != nil {
		return false // a missing file proves nothing
	}
	st, err := f.Stat()
	return err == nil && !os.SameFile(st, named)
}

// die removes the file of a session that has ended.
func (s *store) die(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.lives[id]; f != nil {
		_ = s.dir.in(lives).Root.Remove(id)
		f.Close()
		delete(s.lives, id)
	}
}

// dead reports whether a session has certainly no process any more. A missing file proves nothing:
// another program may have removed it. Neither does a copy.
func (s *store) dead(of exchange.Session) bool {
	free, copied := s.deserted(of.ID)
	return free && !copied
}

// deadOnce is dead for a transaction, which asks about each session once.
func (s *store) deadOnce() func(exchange.Session) bool {
	known := map[string]bool{}
	return func(of exchange.Session) bool {
		dead, asked := known[of.ID]
		if !asked {
			dead = s.dead(of)
			known[of.ID] = dead
		}
		return dead
	}
}

// deserted reports whether the file of a session has no lock, and whether it is a copy.
func (s *store) deserted(id string) (free, copied bool) {
	s.mu.Lock()
	_, mine := s.lives[id]
	s.mu.Unlock()
	if mine || id == "" {
		return false, false
	}
	f, err := s.dir.in(lives).OpenFile(id, os.O_RDONLY)
	if err != nil {
		return false, false
	}
	defer f.Close()
	return folder.Deserted(f)
}
