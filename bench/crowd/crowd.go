// Package crowd measures many who wait for one lock while most of them give up
// and come back: whether the lock still passes on, whether leases survive that
// have nothing to do with the crowd, and whether other clients get in.
package crowd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options are the size of a crowd and how long it is watched.
type Options struct {
	Waiters   int           // in all processes together
	Processes int           // each has one client
	GivingUp  float64       // the share of the waiters that give up, from 0 to 1
	Patience  time.Duration // these wait for a random time up to it, and come back at once
	TTL       time.Duration
	Time      time.Duration // from the moment when all processes are ready

	// Grace is how long the processes may take to get ready, and to end after the
	// time is over, before they are killed.
	Grace time.Duration

	// Progress is called several times a second, if it is not nil.
	Progress func(grants int, left time.Duration)
}

// Figures are what a crowd came to.
type Figures struct {
	Backend       string   `json:"backend"`
	Waiters       int      `json:"waiters"`
	Processes     int      `json:"processes"`
	GivingUp      float64  `json:"giving_up"`                      // share
	Seconds       float64  `json:"seconds"`                        // that were measured
	Grants        int      `json:"grants"`                         // of the lock of the crowd
	GrantsASecond float64  `json:"grants_a_second"`                //
	LongestGap    float64  `json:"longest_seconds_without_grant"`  //
	GaveUp        int      `json:"gave_up"`                        // waits that ended without the lock
	Lost          int      `json:"leases_lost"`                    // of the crowd's lock, and those that each process holds all the time
	Connections   int      `json:"connections"`                    // the most that the server has shown; -1 if it has none
	Others        int      `json:"others"`                         // clients that connected and took another lock
	Refused       int      `json:"others_refused"`                 // those that could not
	OtherLongest  float64  `json:"longest_seconds_of_other"`       // of one of them, from Open to Close
	Failed        int      `json:"failed"`                         // Acquire and Release of the crowd, not counting lost leases
	Hung          int      `json:"processes_killed"`               // since they did not end
	Said          []string `json:"said,omitempty"`                 // some errors, each text once
	Ratio         float64  `json:"of_nobody_gives_up,omitempty"`   // grants a second; set by the caller
	Overlaps      int      `json:"two_held_at_one_time,omitempty"` //
}

// Wrong says what no backend may do to a crowd; it is empty if all is well.
func (f Figures) Wrong() []string {
	var all []string
	for _, w := range []struct {
		n    int
		what string
	}{
		{f.Overlaps, "times two held the lock"},
		{f.Lost, "leases lost"},
		{f.Refused, "other clients refused"},
		{f.Hung, "processes did not end"},
	} {
		if w.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", w.n, w.what))
		}
	}
	if f.Grants == 0 {
		all = append(all, "no grant")
	}
	return all
}

// Run has a crowd wait for one lock of a server. It takes the time and at most
// twice the grace. An error says that the crowd could not be started.
func Run(ctx context.Context, s *Server, o Options) (Figures, error) {
	f := Figures{Backend: s.backend, Waiters: o.Waiters, Processes: o.Processes, GivingUp: o.GivingUp, Connections: -1}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*process
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	for i := range o.Processes {
		p, err := startProcess(task{URL: s.url, Number: i, Waiters: part(o.Waiters, o.Processes, i), GivingUp: o.GivingUp, Patience: o.Patience, TTL: o.TTL, Time: o.Time})
		if err != nil {
			return f, err
		}
		all = append(all, p)
	}
	if err := ready(ctx, all, o.Grace); err != nil {
		return f, err
	}
	began := time.Now()
	for _, p := range all {
		p.begin()
	}
	var beside sync.WaitGroup
	measured, stop := context.WithTimeout(ctx, o.Time)
	defer stop()
	other := other{url: s.url}
	beside.Go(func() { other.run(measured) })
	beside.Go(func() { f.Connections = s.most(measured) })
	for measured.Err() == nil {
		if o.Progress != nil {
			o.Progress(granted(all), max(0, o.Time-time.Since(began)))
		}
		select {
		case <-measured.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	f.Seconds = time.Since(began).Seconds()
	if err := ctx.Err(); err != nil {
		return f, err
	}
	late := time.NewTimer(o.Grace)
	defer late.Stop()
	for _, p := range all {
		select {
		case <-p.ended:
		case <-late.C:
			late.Reset(0) // the others have had the same time
		case <-ctx.Done():
			return f, ctx.Err()
		}
		if !p.finished() {
			f.Hung++
			p.kill()
		}
	}
	beside.Wait()
	f.add(all, began, o.Time)
	f.Others, f.Refused, f.OtherLongest = other.tries, other.refused, other.longest.Seconds()
	f.say(other.said...)
	return f, nil
}

// part is how many of n fall to one of so many.
func part(n, of, which int) int {
	m := n / of
	if which < n%of {
		m++
	}
	return m
}

// ready waits until all processes have opened their clients.
func ready(ctx context.Context, all []*process, within time.Duration) error {
	late := time.NewTimer(within)
	defer late.Stop()
	for i, p := range all {
		select {
		case <-p.ready:
		case <-p.ended:
			return fmt.Errorf("process %d has ended: %v", i, p.said())
		case <-late.C:
			return fmt.Errorf("process %d is not ready after %v", i, within)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func granted(all []*process) (n int) {
	for _, p := range all {
		p.mu.Lock()
		n += len(p.all.Grants)
		p.mu.Unlock()
	}
	return n
}

// add sums up what the processes have reported. Grants count until the time is
// over; whoever is granted the lock while the crowd disperses is left out.
func (f *Figures) add(all []*process, began time.Time, long time.Duration) {
	var grants []grant
	from, to := began.UnixNano(), began.Add(long).UnixNano()
	for _, p := range all {
		p.mu.Lock()
		r := p.all
		p.mu.Unlock()
		grants = append(grants, r.Grants...)
		f.GaveUp += r.GaveUp
		f.Lost += r.Lost
		f.Failed += r.Failed
		f.say(r.Said...)
	}
	slices.SortFunc(grants, func(a, b grant) int { return int(a.From - b.From) })
	last, held := from, int64(0)
	longest := int64(0)
	for _, g := range grants {
		if g.From < held {
			f.Overlaps++
		}
		held = max(held, g.To)
		if g.From > to {
			continue
		}
		f.Grants++
		longest = max(longest, g.From-last)
		last = max(last, g.From)
	}
	f.LongestGap = time.Duration(max(longest, to-last)).Seconds()
	f.GrantsASecond = float64(f.Grants) / long.Seconds()
}

// say keeps an error's text, once, and not too many.
func (f *Figures) say(texts ...string) {
	for _, s := range texts {
		if len(f.Said) < 10 && !slices.Contains(f.Said, s) {
			f.Said = append(f.Said, s)
		}
	}
}
