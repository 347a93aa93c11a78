//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/flock"
)

// Promise: the time of -w begins with the command, not when the backend has been opened.
func TestTheOpeningIsPartOfTheWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	url := "sqlite:" + path + "?ttl=1m"
	holds(t, url, "a")
	turn := errtest.Must(flock.Open(t.Context(), path+"-interlock/turn"))(t) // nobody can open the file
	defer turn.Close()
	st := errtest.Must(turn.Stat())(t)
	const wait = 6 * time.Second
	c := start(t, url, "run", "-v", "-w", fmt.Sprint(wait), "a", "--", "true")
	inode := fmt.Sprintf(":%d ", st.Sys().(*syscall.Stat_t).Ino)
	c.until("it waits to open the file", func() bool {
		locks, err := os.ReadFile("/proc/locks")
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return true
			}
		}
		return err != nil
	})
	time.Sleep(wait * 2 / 3)
	errtest.None(t, turn.Close())
	c.says("backend sqlite:")
	opened := time.Now()
	c.ends(exitBusy, soon)
	if waited := time.Since(opened); waited >= wait {
		t.Errorf("after the opening it waited for %v more, with -w %v: %s", waited, wait, c.stderr())
	}
}
