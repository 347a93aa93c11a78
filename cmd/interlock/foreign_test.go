//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zkpeer"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: the command says what became of a holder of another library: kazoo cannot be asked,
// Curator is asked, and holds on if it does not listen. Nothing is said of the end of its lock.
func TestHoldersOfOtherLibrariesAreNotCalledEvicted(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	url := "zk://" + s.Addr + "/"
	says := func(code int, text string, args ...string) {
		t.Helper()
		c := cli(t, url, args...)
		var out strings.Builder
		c.Stdout, c.Stderr = &out, &out
		_ = c.Run()
		if c.ProcessState.ExitCode() != code || !strings.Contains(out.String(), text) || strings.Contains(out.String(), "REVOKE") {
			t.Errorf("interlock %s exits %d: %s", strings.Join(args, " "), c.ProcessState.ExitCode(), &out)
		}
	}
	for name, peer := range map[string]*zkpeer.Peer{"k": zkpeer.Kazoo(t, s.Addr), "c": zkpeer.Curator(t, s.Addr)} {
		errtest.None(t, peer.Mutex("/"+name).Acquire(t.Context()))
	}
	says(0, "not known", "show", "k")
	says(exitUsage, "a lock of kazoo cannot be asked for", "evict", "k")
	says(exitUsage, "a lock of kazoo cannot be asked for", "revoke", "k")
	says(0, "not known", "show", "c")
	says(0, "holds on if it does not listen", "evict", "c")
	says(0, "asked another program", "revoke", "c")
	says(0, "another program", "show", "c")
	says(exitBusy, "held by another program", "run", "-n", "c", "--", "true")
	says(0, "evicted", "evict", "--force", "k")
}
