// Package fault is what goes wrong in a run: a table of small functions.
package fault

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/lab/world"
)

// A Client is a process that works.
type Client interface {
	Slot() int // the number of its links
	Number() int
	Pid() int
	Pause() error
	Resume() error
	Kill()
	Replace(repeats bool) // kills it, and starts another one in its place
	Busy(time.Duration)
}

// A Stage is what faults are played on.
type Stage struct {
	*world.World
	*rand.Rand
	Clients []Client // of this lane
	All     []Client
	Admin   func() interlock.Admin
}

// Begun is a fault that goes on.
type Begun struct {
	What  string
	End   func()        // nil: it is over at once
	Dwell time.Duration // how long it should go on
}

// Fault is one kind. It concerns a client, or all.
type Fault struct {
	Name, About string
	Rare        int                       // it comes that many times less often
	Applies     func(w *world.World) bool // nil: always
	Client      func(s *Stage, c Client) Begun
	All         func(s *Stage) Begun
	Loses       func(w *world.World) bool // nil: never
	Harmless    bool                      // no lease may be lost by it
	Needs       func() error              // why this machine cannot do it; nil: each can
}

func linked(w *world.World) bool       { return len(w.Links) > 0 && w.Links[0].Client >= 0 }
func served(w *world.World) bool       { return len(w.Servers) > 0 }
func led(w *world.World) bool          { return w.Leader != nil }
func disk(w *world.World) bool         { return w.Disk != nil }
func asynchronous(w *world.World) bool { return w.Loses }

// upTo is a time for which a fault goes on: mostly short, at times longer than a lease.
func (s *Stage) upTo(most float64) time.Duration {
	d := s.Float64() * s.Float64() * most
	return time.Duration(d * float64(s.TTL))
}

// links finds the ways from a client, or to a server.
func (s *Stage) links(client, server int) (all []world.Link) {
	for _, l := range s.Links {
		if (client < 0 || l.Client == client) && (server < 0 || l.Server == server) {
			all = append(all, l)
		}
	}
	return all
}

func each(all []world.Link, do func(world.Link)) {
	for _, l := range all {
		do(l)
	}
}

// silence cuts links in one of several ways.
func (s *Stage) silence(all []world.Link) (what string, end func()) {
	resume := func() { each(all, func(l world.Link) { l.Resume() }) }
	switch s.IntN(3) {
	case 0:
		each(all, func(l world.Link) { l.Hang() })
		return "silent", resume
	case 1:
		each(all, func(l world.Link) { l.Late() })
		return "no answers", resume
	}
	each(all, func(l world.Link) { l.Refuse(true); l.Cut() })
	return "refused", func() { each(all, func(l world.Link) { l.Refuse(false) }) }
}

// All are the faults that every backend can have.
var All = []Fault{
	{Name: "kill", About: "SIGKILL of a client", Client: func(_ *Stage, c Client) Begun {
		c.Replace(false)
		return Begun{What: "killed"}
	}},
	{Name: "stop", About: "SIGSTOP of a client", Client: func(s *Stage, c Client) Begun {
		if c.Pause() != nil {
			return Begun{What: "it has ended"}
		}
		return Begun{"stopped", func() { _ = c.Resume() }, s.upTo(2.5)}
	}},
	{Name: "busy", About: "a client whose goroutines take all processors", Rare: 2,
		Client: func(s *Stage, c Client) Begun {
			d := s.upTo(1.5)
			c.Busy(d)
			return Begun{"busy", func() {}, d}
		}, Harmless: true},
	{Name: "throttled", About: "a client whose cgroup has a fifth of a processor, and whose goroutines want more",
		Rare: 2, Needs: throttles, Client: func(s *Stage, c Client) Begun {
			d := s.upTo(1.5)
			end, err := throttle(c.Pid())
			if err != nil {
				return Begun{What: err.Error()}
			}
			c.Busy(d)
			return Begun{"a fifth", end, d}
		}, Harmless: true},
	{Name: "repeated", About: "SIGKILL of a client, and the network brings each request of the next one twice", Rare: 3,
		Applies: func(w *world.World) bool { return served(w) && !w.Mixes }, Client: func(_ *Stage, c Client) Begun {
			c.Replace(true)
			return Begun{What: "replaced"}
		}},
	{Name: "clock", About: "the wall clock of a client is wrong by up to an hour", Rare: 2,
		// Tokens of files go on from the clock after a power loss.
		Applies: func(w *world.World) bool { return w.Disk == nil || served(w) },
		Client: func(s *Stage, c Client) Begun {
			d := time.Duration(s.IntN(7200)-3600) * time.Second
			if err := testserver.SetWallClock(c.Pid(), d); err != nil {
				return Begun{What: err.Error()}
			}
			pid := c.Pid()
			return Begun{d.String(), func() { _ = testserver.SetWallClock(pid, 0) }, s.upTo(2)}
		}, Harmless: true},
	{Name: "cut", About: "the network of a client is silent, one-way or refused", Applies: linked,
		Client: func(s *Stage, c Client) Begun {
			what, end := s.silence(s.links(c.Slot(), -1))
			return Begun{what, end, s.upTo(2)}
		}},
	{Name: "slow", About: "the network of a client is slow", Applies: linked, Client: func(s *Stage, c Client) Begun {
		l := s.links(c.Slot(), -1)[0]
		l.Delay.Store(s.Int64N(int64(s.TTL) / 20))
		return Begun{"slow", func() { l.Delay.Store(0) }, s.upTo(3)}
	}},
	{Name: "reset", About: "all connections of a client end", Applies: linked, Client: func(s *Stage, c Client) Begun {
		each(s.links(c.Slot(), -1), func(l world.Link) { l.Cut() })
		return Begun{What: "reset"}
	}},
	{Name: "deaf", About: "one connection of a client leads nowhere any more, without a sound", Applies: linked,
		Client: func(s *Stage, c Client) Begun {
			all := s.links(c.Slot(), -1)
			l := all[s.IntN(len(all))]
			i := s.IntN(max(1, l.Connections()))
			l.Silence(i)
			return Begun{fmt.Sprint("connection ", i), func() { l.Cut() }, s.upTo(3)}
		}},
	{Name: "evict", About: "a lease is taken away behind its holder's back",
		All: func(s *Stage) Begun {
			ctx, cancel := context.WithTimeout(context.Background(), s.TTL)
			defer cancel()
			name := []string{"mutex", "rw", "fenced", "election", "multi"}[s.IntN(5)] + "/all"
			q, err := s.Admin().Queue(ctx, name)
			if err != nil || len(q.Holders) == 0 {
				return Begun{What: "none holds " + name}
			}
			err = s.Admin().Evict(ctx, name, q.Holders[0].ID, false)
			return Begun{What: fmt.Sprintf("%s: %v", name, cmp.Or[any](err, "evicted"))}
		}, Harmless: true},
	{Name: "server-kill", About: "SIGKILL of a server", Rare: 2, Applies: served, Loses: asynchronous,
		All: func(s *Stage) Begun { return s.kill(s.server()) }},
	{Name: "server-restart", About: "a server ends in good order, and comes again", Rare: 3, Applies: served,
		Loses: asynchronous, All: func(s *Stage) Begun {
			s.server().Restart()
			return Begun{What: "restarted"}
		}},
	{Name: "server-stop", About: "SIGSTOP of a server", Applies: served, Loses: asynchronous,
		All: func(s *Stage) Begun { return s.pause(s.server()) }},
	{Name: "leader-kill", About: "SIGKILL of the leader", Rare: 2, Applies: led, Loses: asynchronous,
		All: func(s *Stage) Begun { return s.kill(s.Leader()) }},
	{Name: "leader-stop", About: "SIGSTOP of the leader: frozen, not dead", Applies: led, Loses: asynchronous,
		All: func(s *Stage) Begun { return s.pause(s.Leader()) }},
	{Name: "server-cut", About: "the network of a server is silent, one-way or refused",
		Applies: func(w *world.World) bool { return len(w.Links) > 0 }, Loses: asynchronous, All: func(s *Stage) Begun {
			what, end := s.silence(s.links(-1, s.Links[s.IntN(len(s.Links))].Server))
			return Begun{what, end, s.upTo(2)}
		}},
	{Name: "server-clock", About: "the wall clock of a server steps by less than half the margin",
		Applies: func(w *world.World) bool { return w.StepClock != nil }, All: func(s *Stage) Begun {
			d := time.Duration(s.Int64N(int64(s.TTL)/10) - int64(s.TTL)/20)
			s.StepClock(d)
			return Begun{d.String(), func() { s.StepClock(-d) }, s.upTo(2)}
		}},
	{Name: "disk-full", About: "the disk of all servers is full", Rare: 4, Applies: disk, Needs: world.Disks,
		All: func(s *Stage) Begun {
			free := s.Disk.Fill()
			return Begun{"full", func() {
				free()
				s.Start()
			}, s.upTo(1)}
		}},
	{Name: "disk-frozen", About: "the disk of all servers takes no write", Rare: 3, Applies: disk, Needs: world.Disks,
		All: func(s *Stage) Begun { return Begun{What: "frozen", End: s.Disk.Freeze(s.upTo(1.5))} }},
	{Name: "power", About: "all servers lose their power, and what their disk has not confirmed", Rare: 4, Applies: disk,
		Needs: world.Disks, All: func(s *Stage) Begun {
			s.Disk.Fail()
			for _, server := range s.Servers {
				server.Kill()
			}
			local := s.All
			if served(s.World) {
				local = nil // clients are on other machines
			}
			for _, c := range local {
				c.Kill()
			}
			s.Disk.Return()
			return Begun{"lost", func() {
				s.Start()
				for _, c := range local {
					c.Replace(false)
				}
			}, s.upTo(0.8)}
		}},
}

// Start starts the servers that have ended. Those of a group need each other, and others of them may be about to end, so
// all of them start anew.
func (s *Stage) Start() {
	ended := slices.DeleteFunc(slices.Clone(s.Servers), world.Server.Alive)
	if s.Leader != nil && len(ended) > 0 {
		ended = s.Servers
	}
	var all sync.WaitGroup
	failed := make([]any, len(ended))
	for i, server := range ended {
		all.Go(func() {
			defer func() { failed[i] = recover() }()
			server.Kill()
			server.Restart()
		})
	}
	all.Wait()
	if why := cmp.Or(failed...); why != nil {
		panic(why)
	}
}

func (s *Stage) server() world.Server { return s.Servers[s.IntN(len(s.Servers))] }

func (s *Stage) kill(server world.Server) Begun {
	server.Kill()
	return Begun{"killed", server.Restart, s.upTo(0.8)}
}

func (s *Stage) pause(server world.Server) Begun {
	server.Pause()
	if !server.Alive() { // a disk that was full a moment ago has ended it
		return Begun{What: "it has ended"}
	}
	return Begun{"stopped", server.Resume, s.upTo(2)}
}

// Of are the faults of a world, of these names; of none all.
func Of(w *world.World, names []string) (all []Fault, err error) {
	for _, f := range All {
		if (f.Applies == nil || f.Applies(w)) && (f.Needs == nil || f.Needs() == nil) {
			all = append(all, f)
		}
	}
	for _, sp := range w.Special {
		all = append(all, Fault{
			Name: sp.Name, About: "only of this backend", Rare: 3, Loses: func(*world.World) bool { return sp.Loses },
			All: func(s *Stage) Begun { return Begun{sp.Name, sp.Begin(), s.upTo(1)} },
		})
	}
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(f Fault) bool { return !slices.Contains(names, f.Name) })
	}
	if len(names) > 0 && len(all) == 0 && names[0] != "none" {
		err = fmt.Errorf("this backend has none of the faults %s: see lab list", strings.Join(names, ", "))
	}
	return all, err
}

// Missing says which faults this machine cannot do, and why.
func Missing() (all []string) {
	for _, f := range All {
		if f.Needs != nil && f.Needs() != nil {
			all = append(all, fmt.Sprintf("without %s: %v", f.Name, f.Needs()))
		}
	}
	return all
}

// Choose draws one.
func Choose(r *rand.Rand, all []Fault) Fault {
	for {
		f := all[r.IntN(len(all))]
		if f.Rare < 2 || r.IntN(f.Rare) == 0 {
			return f
		}
	}
}
