package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ofOneMachine warns whoever has named no backend and may mean that of several machines.
const ofOneMachine = "no backend was given, so it is a file of this user on this machine alone; name one with --url, --url-file, --context or INTERLOCK_URL, or say --local"

// surprises reports whether the user is to be warned that the backend is one of this machine: at a terminal if
// the command is one for several machines, else once for each user. Cron would send it each night.
func (b backend) surprises(forSeveral bool) bool {
	return b.silent && (unattended() && firstTime() || !unattended() && forSeveral)
}

// firstTime reports whether this user was not warned before.
func firstTime() bool {
	_, dir, err := stateDir()
	if err != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(dir, "warned"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_ = f.Close()
	}
	return !errors.Is(err, os.ErrExist)
}

// ownFile is the SQLite file of this user on this machine.
func ownFile(source string) (backend, error) {
	base, dir, err := stateDir()
	if err != nil {
		return backend{}, usage("no backend: %w; give one with --url, such as sqlite:///var/lib/locks.db", err)
	}
	if err := own(base, dir); err != nil {
		return backend{}, usage("no backend: %w, or give one with --url", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return backend{}, usage("no backend: %w; give one with --url", err)
	}
	path := (&url.URL{Path: filepath.ToSlash(filepath.Join(dir, "locks.db"))}).EscapedPath()
	return backend{url: "sqlite:" + strings.ReplaceAll(path, "@", "%40"), source: source}, nil
}

// stateDir is where this user's programs keep what outlives them, and the folder of the
// user that it is in.
func stateDir() (base, dir string, err error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Clean(dir), filepath.Join(dir, "interlock"), nil
	}
	if runtime.GOOS == "windows" {
		dir, err := os.UserCacheDir()
		return dir, filepath.Join(dir, "interlock"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", "", err
	}
	return filepath.Clean(home), filepath.Join(home, ".local", "state", "interlock"), nil
}
