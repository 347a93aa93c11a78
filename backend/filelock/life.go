//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"os"

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
	s.dir.alive.Store(id, true)
	return f, nil
}

// copied reports whether another file has the name of the session's: the directory was replaced by a copy.
// That file has no lock, so the death of the process would not be noticed. A missing file proves nothing.
func (s *store) copied(id string) bool {
	in, err := s.dir.current(lives)
	if err != nil {
		return false
	}
	named, missing := in.Root.Lstat(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if missing != nil || s.lives[id] == nil {
		return false
	}
	st, err := s.lives[id].Stat()
	return err == nil && !os.SameFile(st, named)
}

// die removes the file of a session that has ended.
func (s *store) die(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.lives[id]; f != nil {
		_ = s.dir.in(lives).Root.Remove(id)
		s.dir.alive.Delete(id)
		f.Close()
		delete(s.lives, id)
	}
}

// dead reports whether a session has certainly no process any more. A missing file proves nothing:
// another program may have removed it. Neither does a copy.
func (s *store) dead(session string) bool {
	free, copied := s.deserted(session)
	return free && !copied
}

// deserted reports whether the file of a session has no lock, and whether it is a copy.
func (s *store) deserted(id string) (free, copied bool) {
	if _, ours := s.dir.alive.Load(id); ours || id == "" {
		return false, false
	}
	f, err := s.dir.in(lives).OpenFile(id, os.O_RDONLY)
	if err != nil {
		return false, false
	}
	defer f.Close()
	return folder.Deserted(f)
}
