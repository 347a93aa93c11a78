// Package world starts what a run works on: a backend, alone or replicated, with a way of its own from each client to
// each server.
package world

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is what faults do to each server.
type Server interface {
	Kill()
	Restart()
	Pause()
	Resume()
	Alive() bool
}

// A Link is the way from a client to a server.
type Link struct {
	*testserver.Proxy
	Client int // -1: of all clients
	Server int
	Delay  *atomic.Int64 // nanoseconds for each piece that passes
}

// A World is a backend.
type World struct {
	Name    string
	About   string
	TTL     time.Duration
	URL     func(client int) string
	Direct  string // for the lab itself
	Servers []Server
	Links   []Link

	// Leader is the server whose death hurts most; nil: there is none.
	Leader func() Server

	// Loses says that the documents do not promise that grants survive when a server dies or is cut off, since
	// another one, which may not have received them, takes its place.
	Loses bool

	// Mixes says that who waits may come into another order when a server does not answer a client.
	Mixes bool

	// Slow is for how long after the death of a server nothing may be granted, as documented.
	Slow time.Duration

	// Late is the part of the TTL within which the backend has to answer to cost no lease, as documented; 0: a fifth.
	Late int64

	// StepClock steps the wall clock of a server; nil: it cannot be done.
	StepClock func(time.Duration)

	// Special are faults that only this backend knows.
	Special []Special

	// Left names what the backend has after the last client has gone, and all that lives for a time is over.
	Left func() []string

	Rich bool // it has values, latches, barriers and semaphores

	// Disk is where the servers, or the files, keep all that they have; nil: not alone on one.
	Disk *Disk

	t     *bench
	delay []atomic.Int64 // of the links of each client
}

// A Special is a fault of one backend.
type Special struct {
	Name  string
	Loses bool
	Begin func() (end func())
}

// Close ends all servers.
func (w *World) Close() {
	w.t.close()
	if w.Disk != nil {
		_ = errors.Join(command("umount", "-l", w.Disk.dir), command("umount", "-l", w.Disk.dir), os.Remove(w.Disk.image))
	}
}

// A Kind makes worlds.
type Kind struct {
	Name  string
	About string
	start func(w *World, t testing.TB)
	disk  bool // it can have one that fails
}

// Start starts a world in a folder, for so many clients.
func Start(name, dir string, clients int) (w *World, err error) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the lab knows no backend %q", name)
	}
	w = &World{Name: name, About: Kinds[i].About, TTL: 2 * time.Second, Rich: true, t: &bench{dir: dir},
		delay: make([]atomic.Int64, clients)}
	defer func() {
		if r := recover(); r != nil {
			w.Close()
			err = fmt.Errorf("start %s: %v", name, r)
		}
	}()
	must(os.MkdirAll(dir, 0o711))
	if Kinds[i].disk && os.Getenv(own) != "" {
		w.Disk = newDisk(dir)
		w.t.dir = w.Disk.dir
	}
	Kinds[i].start(w, w.t)
	if w.Disk != nil {
		must(command("sync", "-f", w.Disk.dir)) // what was made before a server ran
	}
	return w, nil
}

// through makes a link from each client to each server, and the URLs that lead over them: url has the addresses in
// the place of %s.
func (w *World) through(addrs []string, url string) {
	all := make([][]string, len(w.delay))
	for c := range all {
		for s, addr := range addrs {
			delay := &w.delay[c]
			p := testserver.NewProxy(w.t, addr, testserver.ProxyOptions{
				Filters: func() (requests, replies testserver.Filter) { return slow(delay), slow(delay) },
			})
			w.Links = append(w.Links, Link{p, c, s, delay})
			all[c] = append(all[c], p.Addr)
		}
	}
	w.Direct = strings.ReplaceAll(url, "%s", strings.Join(addrs, ","))
	w.URL = func(c int) string { return strings.ReplaceAll(url, "%s", strings.Join(all[c], ",")) }
}

// slow holds each piece back for a while.
func slow(delay *atomic.Int64) testserver.Filter {
	var kept []byte
	return func(read []byte) testserver.Passed {
		if kept = append(kept, read...); len(read) > 0 {
			if d := time.Duration(delay.Load()); d > 0 {
				later := make(chan struct{})
				time.AfterFunc(d, func() { close(later) })
				return testserver.Passed{Wait: later}
			}
		}
		b := kept
		kept = nil
		return testserver.Passed{Bytes: b, Frames: 1}
	}
}

// path is the only URL, without a network.
func (w *World) path(url string) {
	w.Direct = url
	w.URL = func(int) string { return url }
}

func servers[S Server](all []S) (list []Server) {
	for _, s := range all {
		list = append(list, s)
	}
	return list
}
