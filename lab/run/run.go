// Package run lets workers work on a world while faults disturb them, and has the history judged.
package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/lab/check"
	"github.com/interlock-go/interlock/lab/fault"
	"github.com/interlock-go/interlock/lab/history"
	"github.com/interlock-go/interlock/lab/worker"
	"github.com/interlock-go/interlock/lab/world"
)

// Options of a run.
type Options struct {
	Backend    string
	Workloads  []string // of none all
	Faults     []string // of none all; "none": none
	For        time.Duration
	Seed       uint64
	Workers    int
	Goroutines int
	Dir        string // for the history and the servers; it must not exist
	Broken     string // see worker.Task
	Library    string
	Settle     time.Duration // for how long they go on after the last fault; 0: two TTLs
}

// Report is a run and what was found.
type Report struct {
	Backend string        `json:"backend"`
	About   string        `json:"about"`
	Seed    uint64        `json:"seed"`
	For     time.Duration `json:"for"`
	TTL     time.Duration `json:"ttl"`
	Command string        `json:"command"` // that repeats it
	Dir     string        `json:"dir"`     // of the history

	Patience time.Duration `json:"patience"`
	*check.Result
	Events []history.Event `json:"-"`
}

// runner is one run.
type runner struct {
	Options
	*world.World
	log     *history.Log
	drawn   []fault.Fault // faults that may come
	counter *worker.Counters
	effects *worker.Effects
	procs   []*process
	next    atomic.Int64 // numbers of workers
	faults  atomic.Int64
	other   string
	admin   atomic.Pointer[interlock.Client] // of the lab
}

// Run runs.
func Run(o Options) (*Report, error) {
	o.Workers, o.Goroutines = cmp.Or(o.Workers, 4), cmp.Or(o.Goroutines, 4)
	w, err := world.Start(o.Backend, filepath.Join(o.Dir, "servers"), o.Workers)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r := &runner{Options: o, World: w, other: "sqlite:" + filepath.Join(o.Dir, "other.db")}
	if r.drawn, err = fault.Of(w, o.Faults); err != nil {
		return nil, err
	}
	if r.log, err = history.Create(filepath.Join(o.Dir, "lab.jsonl")); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(o.Dir, worker.Socket))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r.counter = &worker.Counters{Log: r.log, Now: history.Now}
	go r.counter.Serve(l)
	if r.effects, err = worker.OpenEffects(context.Background(), filepath.Join(o.Dir, worker.Database)); err != nil {
		return nil, err
	}
	defer func() {
		for _, p := range r.procs {
			p.Process.Kill()
		}
	}()
	for slot := range o.Workers {
		p := &process{r: r, slot: slot}
		if err := p.start(); err != nil {
			return nil, err
		}
		r.procs = append(r.procs, p)
	}
	if err := r.goesOn(); err != nil {
		return nil, fmt.Errorf("the workers do not begin: %w: %s", err, r.procs[0].stderr())
	}
	if err := r.disturb(); err != nil {
		r.left("progress", "%v", err)
	}
	r.finish()
	return r.judge()
}

func (r *runner) event(e history.Event) {
	e.T = history.Now()
	r.log.Write(e)
}

func (r *runner) left(object, format string, args ...any) {
	r.event(history.Event{Kind: history.Left, Object: object, Value: fmt.Sprintf(format, args...)})
}

// patience is how long it may take until the next of them succeeds, when nothing disturbs them.
func (r *runner) patience() time.Duration { return busy.Bound(30*time.Second + r.Slow) }

// disturb plays faults until the time is over, one after the other, at times two at once.
func (r *runner) disturb() error {
	admin, err := interlock.Open(context.Background(), r.Direct, interlock.TTL(r.TTL))
	if err != nil {
		return err
	}
	r.admin.Store(admin)
	defer func() { r.admin.Load().Close() }()
	stage := fault.Stage{World: r.World, Admin: func() interlock.Admin { return r.admin.Load().Admin() }}
	for _, p := range r.procs {
		stage.All = append(stage.All, p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	probes := map[string]string{r.other: "multi/"}
	if u, err := url.Parse(r.Direct); r.Leader != nil && err == nil {
		for _, u.Host = range strings.Split(u.Host, ",") {
			probes[u.String()] = ""
		}
	}
	for at, objects := range probes {
		c, err := interlock.Open(context.Background(), at, interlock.TTL(r.TTL))
		if err != nil {
			return err
		}
		defer c.Close()
		go r.probe(ctx, c, objects)
	}
	go r.probe(ctx, admin, "")
	began := time.Now()
	errs := make(chan error, lanes)
	for lane := range lanes {
		go func() { errs <- r.lane(lane, stage, began.Add(r.For)) }()
	}
	time.Sleep(r.For)
	for range lanes {
		err = errors.Join(err, <-errs)
	}
	r.end()
	return err
}

// probe writes down when the backend, or a server of several, is late with a write, as a heartbeat is one: leases are
// promised to stay while it answers soon, by the way that no fault disturbs. Only locks of these objects are kept there.
func (r *runner) probe(ctx context.Context, c *interlock.Client, objects string) {
	for name := fmt.Sprint("probe/", rand.Uint64()); ctx.Err() == nil; {
		from := history.Now()
		l, err := c.Mutex(name).TryAcquire(ctx)
		if err == nil {
			err = l.Release()
		}
		if took := history.Now() - from; ctx.Err() == nil && (err != nil || took > int64(r.TTL)/cmp.Or(r.Late, 5)) {
			r.event(history.Event{Kind: history.Stall, D: max(took, int64(r.TTL)/5), Object: objects})
		}
		if err != nil && r.Disk != nil && objects == "" && len(r.Servers) == 0 { // the files may be those of another life
			if next, err := interlock.Open(ctx, r.Direct, interlock.TTL(r.TTL)); err == nil {
				r.admin.Store(next)
				go c.Close()
				c = next
			}
		}
		time.Sleep(r.TTL / 20)
	}
}

// Faults of several lanes go on at once: the first ones are of clients, each has its own, and the last one is of
// servers.
const lanes = 3

// lane plays one fault after the other.
func (r *runner) lane(lane int, s fault.Stage, end time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil { // a server that does not start again, and so on: what was seen by then is judged
			err = fmt.Errorf("%v", p)
		}
	}()
	rnd := rand.New(rand.NewPCG(r.Seed, uint64(lane+1)))
	s.Rand = rnd
	for i, c := range s.All {
		if i%(lanes-1) == lane {
			s.Clients = append(s.Clients, c)
		}
	}
	all := slices.DeleteFunc(slices.Clone(r.drawn),
		func(f fault.Fault) bool { return (f.Client != nil) != (len(s.Clients) > 0) })
	if len(all) == 0 {
		return nil
	}
	for time.Now().Before(end) {
		pause := time.Duration(rnd.Int64N(int64(r.TTL) / 4))
		if rnd.IntN(8) == 0 {
			pause = 3 * r.TTL // a lease that is lost now was not disturbed
		}
		time.Sleep(pause)
		n := r.play(&s, fault.Choose(rnd, all))
		if err := r.goesOn(); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s: %v more, %d faults", r.Backend, time.Until(end).Round(time.Second), n)
	}
	return nil
}

// play begins a fault, waits, and ends it. It returns its number.
func (r *runner) play(s *fault.Stage, f fault.Fault) int {
	n := int(r.faults.Add(1))
	e := history.Event{Kind: history.Fault, Op: f.Name, N: n, Loses: f.Loses != nil && f.Loses(r.World), Mixes: r.Mixes}
	play := f.All
	if f.Client != nil {
		c := s.Clients[s.IntN(len(s.Clients))]
		e.Object = fmt.Sprint(c.Number())
		play = func(s *fault.Stage) fault.Begun { return f.Client(s, c) }
	} else {
		s.Start() // one may have died of the last fault
	}
	e.ID = e.Object
	if f.Harmless {
		e.Object = "0" // no lease of a worker may be lost by it
	}
	r.event(e)
	b := play(s)
	r.event(history.Event{Kind: history.Note, Op: f.Name, N: n, Value: b.What})
	if b.End != nil {
		time.Sleep(b.Dwell)
		b.End()
	}
	r.event(history.Event{Kind: history.Heal, Op: f.Name, N: n})
	return n
}

// goesOn waits until workers succeed again.
func (r *runner) goesOn() error {
	told := r.counter.Told.Load()
	for end := time.Now().Add(r.patience()); r.counter.Told.Load() < told+int64(r.Workers*5); {
		if time.Now().After(end) {
			return fmt.Errorf("nothing has succeeded for %v", r.patience())
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// end lets the workers end.
func (r *runner) end() {
	time.Sleep(cmp.Or(r.Settle, 2*r.TTL))
	for _, p := range r.procs {
		p.say("over")
	}
	end := time.Now().Add(r.patience())
	for _, p := range r.procs {
		if !p.ended(time.Until(end)) {
			r.left(fmt.Sprint("worker ", p.number), "it has not ended %v after the last fault:\n%s", r.patience(),
				p.stacks())
		} else if text := p.stderr(); text != "" {
			r.left(fmt.Sprint("worker ", p.number), "it has ended with: %s", text)
		}
	}
}

// finish looks what they have left.
func (r *runner) finish() {
	counts, err := r.effects.Counts()
	if err != nil {
		r.left("effects", "%v", err)
	}
	for key, n := range counts {
		r.event(history.Event{Kind: history.Note, Op: "effects", Object: key, Value: fmt.Sprint(n)})
	}
	if err := r.tidy(); err != nil {
		r.left("the backend", "%v", err)
	}
}

// tidy removes what is meant to stay, and looks whether anything else has.
func (r *runner) tidy() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.patience())
	defer cancel()
	err := errors.Join(r.visit(ctx, r.Direct), r.visit(ctx, r.other))
	if err == nil && r.Left != nil {
		err = gone(10*r.TTL, func() ([]string, error) { return r.Left(), nil })
	}
	return err
}

// gone waits until nothing is left.
func gone(within time.Duration, left func() ([]string, error)) error {
	for end := time.Now().Add(busy.Bound(within)); ; time.Sleep(100 * time.Millisecond) {
		names, err := left()
		if err != nil || len(names) == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("it still has %d: %s", len(names), strings.Join(names[:min(len(names), 5)], ", "))
		}
	}
}

// visit waits until no lock of a backend is held or waited for, which takes a TTL or two if clients were killed, and
// removes values.
func (r *runner) visit(ctx context.Context, url string) error {
	c, err := interlock.Open(ctx, url, interlock.TTL(r.TTL))
	if err != nil {
		return err
	}
	defer c.Close()
	err = gone(5*r.TTL+r.Slow, func() (names []string, err error) {
		for q, err := range c.Admin().Queues(ctx, "") {
			if err != nil {
				return nil, err
			}
			if len(q.Holders)+len(q.Waiters)+len(q.Overruns) > 0 {
				names = append(names, fmt.Sprintf("%s: %d hold, %d wait", q.Name, len(q.Holders), len(q.Waiters)))
			}
		}
		return names, nil
	})
	if err != nil || !r.Rich || url == r.other {
		return err
	}
	return forget(ctx, c)
}

// forget removes values and latches, which are there to stay.
func forget(ctx context.Context, c *interlock.Client) error {
	for st, err := range c.Admin().Stored(ctx, "") {
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(st.Name, "latch/"):
			err = c.Latch(st.Name).Reset(ctx)
		case strings.HasPrefix(st.Name, "value/"):
			v := interlock.NewValue[string](c, st.Name)
			s, failed := v.Get(ctx)
			err = errors.Join(failed, v.Delete(ctx, s.Version))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) judge() (*Report, error) {
	report := &Report{
		Backend: r.Backend, About: r.About, Seed: r.Seed, For: r.For, TTL: r.TTL, Patience: r.patience(), Dir: r.Dir,
		Command: r.command(),
	}
	if err := report.judge(); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return nil, err
	}
	return report, os.WriteFile(filepath.Join(r.Dir, reportFile), text, 0o600)
}

const reportFile = "report.json"

// Again judges the history of a run again.
func Again(dir string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, reportFile))
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	r.Dir = dir // it may have been moved
	return &r, r.judge()
}

func (r *Report) judge() (err error) {
	if r.Events, err = history.Read(r.Dir); err == nil {
		r.Result = check.Check(r.Events, check.Options{TTL: r.TTL, Patience: r.Patience})
	}
	return err
}

func (r *runner) command() string {
	text := fmt.Sprintf("make lab LAB='run -backend %s -for %v -seed %d", r.Backend, r.For, r.Seed)
	for _, f := range [][]string{{"workload", strings.Join(r.Workloads, ",")}, {"library", r.Library},
		{"faults", strings.Join(r.Faults, ",")}} {
		if f[1] != "" {
			text += " -" + f[0] + " " + f[1]
		}
	}
	return text + "'"
}
