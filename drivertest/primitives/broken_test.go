package primitives

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A fault breaks the core, package interlock: in a copy of its files the text old,
// which stands there once, is replaced. In the new text broken("…") says whether
// this fault is switched on, and pick("…", wrong, right) chooses.
type fault struct {
	name  string
	bites string // names of rules that must notice
	edits []edit
}

type edit struct{ file, old, new string }

// faults are those that a tired engineer could make. If the core has changed and a
// text is not found any more, break it in its new form.
var faults = []fault{
	{"two goroutines hold", "Exclusion Tokens ThirtyNumbers ThirtyNumbersInProcesses", []edit{
		{"line.go", "!n.shared && t.live > 0 {", `!n.shared && t.live > 0 && !broken("two goroutines hold") {`}}},
	{"tokens do not grow in the process", "Exclusion Tokens", []edit{
		{"single.go", "return l.t.tk.Token<<tokenBits | l.g.number }", `return l.t.tk.Token<<tokenBits | pick("tokens do not grow in the process", 0, l.g.number) }`}}},
	{"StrictOrder does nothing", "Order", []edit{
		{"lock.go", "!l.cfg.strict && l.cfg.hold", `(!l.cfg.strict || broken("StrictOrder does nothing")) && l.cfg.hold`}}},
	{"last come, first served", "Order", []edit{
		{"turn.go", "func (q *turns) push(w *turn) {", `func (q *turns) push(w *turn) {
	if q.first != nil && broken("last come, first served") {
		w.waiting, w.prev, w.next = true, nil, q.first
		q.first.prev, q.first = w, w
		return
	}`}}},
	{"a lost reply costs the place", "Order", []edit{
		{"ticket.go", "\t\tif b.Sleep(ctx) != nil {\n\t\t\treturn t, l.c.because", `		if broken("a lost reply costs the place") {
			t.abandon()
			t = nil
		}
		if b.Sleep(ctx) != nil {
			return t, l.c.because`}}},
	{"a try that failed is not told", "Retrying", []edit{
		{"ticket.go", "Event{Kind: EventRetry, Name: l.name, Err: err}", `Event{Kind: pick("a try that failed is not told", EventRejoined, EventRetry), Name: l.name, Err: err}`}}},
	{"a cancelled wait stays", "Cancellation FiveContenders", []edit{
		{"leave.go", "stands := max(t.sess.ttl, t.req.Hold)\n", `stands := max(t.sess.ttl, t.req.Hold)
		if broken("a cancelled wait stays") {
			t.unregister()
			return was
		}
`}}},
	{"TryAcquire waits", "Bounds", []edit{
		{"lock.go", "TryAcquire(ctx context.Context) (*Lease, error) { return l.acquire(ctx, true) }", `TryAcquire(ctx context.Context) (*Lease, error) { return l.acquire(ctx, !broken("TryAcquire waits")) }`}}},
	{"a writer is a reader", "ReadersAndWriters NoOvertaking Downgrade", []edit{
		{"rwmutex.go", "name, driver.RWCapacity, driver.RWCapacity, opts", `name, pick[int64]("a writer is a reader", 1, driver.RWCapacity), driver.RWCapacity, opts`}}},
	{"readers of the process overtake", "NoOvertaking", []edit{
		{"line.go", "t.wanted && (n.shared ||", `t.wanted && !broken("readers of the process overtake") && (n.shared ||`},
		{"line.go", "return now.Sub(t.since) < maxHandoverTime", `return now.Sub(t.since) < maxHandoverTime || broken("readers of the process overtake")`}}},
	{"Downgrade is not sent", "Downgrade Shrinking", []edit{
		{"shrink.go", "return t.sess.s.Shrink(call, t.tk, units)", `if broken("Downgrade is not sent") {
				return nil
			}
			return t.sess.s.Shrink(call, t.tk, units)`}}},
	{"Downgrade leaves", "Downgrade Shrinking", []edit{
		{"shrink.go", "return t.sess.s.Shrink(call, t.tk, units)", `if broken("Downgrade leaves") {
				return t.sess.s.Leave(call, t.tk, true)
			}
			return t.sess.s.Shrink(call, t.tk, units)`}}},
	{"the number that was set counts for nobody", "SetPermits SetPermitsStay", []edit{
		{"permits.go", "case err != nil || !q.Resized && !same:", `case err != nil, broken("the number that was set counts for nobody"), !q.Resized && !same:`}}},
	{"SetPermits is not sent", "SetPermits SetPermitsStay", []edit{
		{"permits.go", "return c.d.Resize(ctx, v.key, permits)", `if broken("SetPermits is not sent") {
			return nil
		}
		return c.d.Resize(ctx, v.key, permits)`}}},
	{"UnsetPermits is not sent", "SetPermitsStay", []edit{
		{"permits.go", "c.resize(ctx, \"unset the permits of\", name, 0)", `c.resize(ctx, "unset the permits of", name, pick[int64]("UnsetPermits is not sent", 3, 0))`}}},
	{"Shrink leaves one permit", "Shrinking", []edit{
		{"shrink.go", "func (t *ticket) shrink(ctx context.Context, units int64) error {", `func (t *ticket) shrink(ctx context.Context, units int64) error {
	if broken("Shrink leaves one permit") {
		units = 1
	}`}}},
	{"a shrunk lease counts in full", "Shrinking", []edit{
		{"shrink.go", "t.units = units\n", `t.units = pick("a shrunk lease counts in full", t.units, units)
`}}},
	{"who waits holds", "HeldByTheClient", []edit{
		{"held.go", "live = append(live, t.leases...)\n", `if live = append(live, t.leases...); len(t.leases) == 0 && broken("who waits holds") {
			live = append(live, &single{t: t, g: &grant{}})
		}
`}}},
	{"whatever is held has the name", "HeldByTheClient", []edit{
		{"held.go", "if t.name == name {", `if t.name == name || broken("whatever is held has the name") {`}}},
	{"weights do not count", "Permits Deadlock Inspection", []edit{
		{"lock.go", "n.units = n.cfg.weight", `n.units = pick("weights do not count", 1, n.cfg.weight)`}}},
	{"all semaphores are of one size", "Mismatch", []edit{
		{"lock.go", "units: 1, capacity: permits}", `units: 1, capacity: pick("all semaphores are of one size", 10, permits)}`}}},
	{"the first release is the last", "Reentrancy", []edit{
		{"release.go", "over, clean := g.leases == 0,", `over, clean := g.leases == 0 || broken("the first release is the last"),`}}},
	{"a deadlock is not noticed", "Deadlock", []edit{
		{"held.go", "nested, has := lease.nest(ctx, l)", `if broken("a deadlock is not noticed") {
			break
		}
		nested, has := lease.nest(ctx, l)`}}},
	{"another client holds too", "Deadlock Held", []edit{
		{"held.go", "if o.c == l.c &&", `if (o.c == l.c || broken("another client holds too")) &&`}}},
	{"Detach does nothing", "Deadlock Held", []edit{
		{"held.go", "return context.WithValue(ctx, heldKey{}, (*heldLeases)(nil))", `return pick("Detach does nothing", ctx, context.WithValue(ctx, heldKey{}, (*heldLeases)(nil)))`}}},
	{"a panic keeps the lock", "Work Robustness", []edit{
		{"lock.go", "defer func() { _ = l.abort() }()", `defer func() {
		if !broken("a panic keeps the lock") {
			_ = l.abort()
		}
	}()`}}},
	{"Close releases a lease of Hold", "Hold", []edit{
		{"close.go", "(!held || fixed)", `(!held || fixed && !broken("Close releases a lease of Hold"))`}}},
	{"leases believe too long", "Hold CutOff StoppedHolder", []edit{
		{"ticket.go", "t.deadline = now, now, end, end.Add(-spare)", `t.deadline = now, now, end, end.Add(pick("leases believe too long", 5*ttl, -spare))`},
		{"loss.go", "t.deadline = t.end.Add(-t.sess.margin)", `t.deadline = t.end.Add(pick("leases believe too long", 5*t.sess.ttl, -t.sess.margin))`}}},
	{"Extend is not sent", "Extension", []edit{
		{"extend.go", "return s.Keep(ctx, t.tk, d)", `if broken("Extend is not sent") {
				return nil
			}
			return s.Keep(ctx, t.tk, d)`}}},
	{"Adopt has another token", "Adoption AdoptionFromAKilledProcess", []edit{
		{"adopt.go", "Token: m.Token, Proof", `Token: pick("Adopt has another token", m.Token+1, m.Token), Proof`}}},
	{"AtLeast does nothing", "AtLeast", []edit{
		{"leave.go", "if keep > 0 &&", `if keep > 0 && !broken("AtLeast does nothing") &&`}}},
	{"a panic is a clean release", "Robustness", []edit{
		{"release.go", "g.unclean = g.unclean || !clean", `g.unclean = g.unclean || !clean && !broken("a panic is a clean release")`}}},
	{"one of the readers is told", "RobustReaders", []edit{
		{"single.go", "(t.grants == 0 || t.req.Units < t.req.Capacity)", `(t.grants == 0 || t.req.Units < t.req.Capacity && !broken("one of the readers is told"))`}}},
	{"a wait does not say that the backend is away", "OutageOfAWait", []edit{
		{"session.go", "last = c.away()", `if !broken("a wait does not say that the backend is away") {
			last = c.away()
		}`}}},
	{"Robust is not sent", "Robustness KilledHolder", []edit{
		{"ticket.go", "Robust: l.cfg.robust", `Robust: l.cfg.robust && !broken("Robust is not sent")`}}},
	{"Retry is not set", "Exclusion", []edit{
		{"ticket.go", "t.req.Retry = true", `t.req.Retry = !broken("Retry is not set")`}}},
	{"candidates are nameless", "Election KilledLeader", []edit{
		{"election.go", "Note(value)))", `Note(pick("candidates are nameless", "", value))))`}}},
	{"a leader's value is what it began with", "LeaderValue", []edit{
		{"election.go", "m.ID == set.Ticket", `m.ID == set.Ticket && !broken("a leader's value is what it began with")`}}},
	{"a value is that of any leader", "LeaderValue", []edit{
		{"election.go", `if m.ID != "" &&`, `if broken("a value is that of any leader") && set.Ticket != "" {
		m.Note = string(set.Value)
	}
	if m.ID != "" &&`}}},
	{"who observes is told of the end of the client", "EndOfObserving", []edit{
		{"election.go", "if err != nil && ctx.Err() == nil {", `if err != nil && (ctx.Err() == nil || broken("who observes is told of the end of the client")) {`}}},
	{"the leader has always a name", "LeaderValue", []edit{
		{"election.go", `if err == nil && m.ID == "" {`, `if err == nil && m.ID == "" && !broken("the leader has always a name") {`}}},
	{"Queue shows holders only", "Inspection", []edit{
		{"inspect.go", "\tout.Name = name\n", "\tout.Name = name\n\tout.Waiters = pick(\"Queue shows holders only\", nil, out.Waiters)\n"}}},
	{"nobody is told of Revoke", "Revocation", []edit{
		{"loss.go", "\t\tl.signalRevoked()\n", "\t\tif !broken(\"nobody is told of Revoke\") {\n\t\t\tl.signalRevoked()\n\t\t}\n"}}},
	{"an evicted holder's lock passes on at once", "Eviction", []edit{
		{"loss.go", "func (t *ticket) evict() {", `func (t *ticket) evict() {
	if broken("an evicted holder's lock passes on at once") {
		defer t.leaveLost(false)
	}`}}},
	{"an evicted holder was done", "Eviction", []edit{
		{"release.go", "t.leaveLost(false)", `t.leaveLost(broken("an evicted holder was done"))`}}},
	{"a lost place is not told", "EvictedWaiter", []edit{
		{"ticket.go", "t.c.emit(ctx, Event{Kind: EventRejoined, Name: t.name, Err: err})", `if !broken("a lost place is not told") {
			t.c.emit(ctx, Event{Kind: EventRejoined, Name: t.name, Err: err})
		}`}}},
	{"force asks first", "Force", []edit{
		{"inspect.go", "name, id, driver.Force)", `name, id, pick("force asks first", driver.Evict, driver.Force))`}}},
	{"a barrier is open", "Barrier", []edit{
		{"barrier.go", "return !c.Exists, nil })", `return !c.Exists || broken("a barrier is open"), nil })`}}},
	{"rounds overlap", "DoubleBarrier", []edit{
		{"doublebarrier.go", "if !m.over {", `if !m.over && !broken("rounds overlap") {`}}},
	{"each leaves for itself", "DoubleBarrier", []edit{
		{"doublebarrier.go", "return !m.members[id] ||", `return broken("each leaves for itself") || !m.members[id] ||`}}},
	{"a member that was taken for dead stays away", "Returning", []edit{
		{"doublebarrier.go", "&& !errors.Is(lost, ErrEvicted)", `&& !errors.Is(lost, ErrEvicted) && !broken("a member that was taken for dead stays away")`}}},
	{"a latch opens too early", "Latch", []edit{
		{"latch.go", "return n == 0, err", `return n <= pick[int64]("a latch opens too early", 1, 0), err`}}},
	{"a change is made again", "Latch Values", []edit{
		{"cell.go", "got, err = v.c.d.Swap(ctx, s)", `if broken("a change is made again") {
			s.ID = newID()
		}
		got, err = v.c.d.Swap(ctx, s)`}}},
	{"a watcher goes to sleep", "Watching", []edit{
		{"cell.go", "got, err = v.c.d.Watch(ctx, v.key, after)", `if after > 3 && broken("a watcher goes to sleep") {
			<-ctx.Done()
		}
		got, err = v.c.d.Watch(ctx, v.key, after)`}}},
	{"one stripe for all", "Striping", []edit{
		{"striped.go", "h.Sum64()%uint64(len(s.stripes))", `h.Sum64()%uint64(pick("one stripe for all", 1, len(s.stripes)))`}}},
	{"Sticky does nothing", "Stickiness", []edit{
		{"line.go", "if n.sticky && !t.wanted {", `if n.sticky && !t.wanted && !broken("Sticky does nothing") {`}}},
	{"a sticky lock does not give way", "Stickiness", []edit{
		{"loss.go", "n != nil && n.sticky {", `n != nil && n.sticky && !broken("a sticky lock does not give way") {`}}},
	{"inspection shows other tokens", "Inspection", []edit{
		{"inspect.go", "Token: m.Token << tokenBits,", `Token: m.Token << pick("inspection shows other tokens", 0, tokenBits),`}}},
	{"Stored shows what a prefix of the kind has", "Stored", []edit{
		{"inspect.go", "strings.HasPrefix(name, prefix) {", `(strings.HasPrefix(name, prefix) || broken("Stored shows what a prefix of the kind has")) {`}}},
	{"Close does not wait for functions of Do", "Closing", []edit{
		{"close.go", "func() bool { return c.bodies == 0 }", `func() bool { return c.bodies == 0 || broken("Close does not wait for functions of Do") }`}}},
	{"Close does not end contexts", "Closing", []edit{
		{"close.go", "ends = append(ends, l.endBound(ErrClosed))", `if !broken("Close does not end contexts") {
			ends = append(ends, l.endBound(ErrClosed))
		}`}}},
	{"nobody looks after lost work", "Overrun", []edit{
		{"state.go", "if lost && l.works > 0 {", `if lost && l.works > 0 && !broken("nobody looks after lost work") {`}}},
	{"an overrun has no end", "Overrun", []edit{
		{"overrun.go", "\tif c.ctx.Err() == nil {\n", "\tif c.ctx.Err() == nil && !broken(\"an overrun has no end\") {\n"}}},
	{"an overrun is not recorded", "Overrun", []edit{
		{"record.go", "if t.recorded++; t.recorded == 1 {", `if t.recorded++; t.recorded == 1 && !broken("an overrun is not recorded") {`},
		{"record.go", "if t.recorded--; t.recorded == 0 {", `if t.recorded--; t.recorded == 0 && !broken("an overrun is not recorded") {`}}},
	{"a record stays", "Overrun", []edit{
		{"record.go", "defer func() { last.abandon(); t.abandon() }()", `defer func() {
		if !broken("a record stays") {
			last.abandon()
			t.abandon()
		}
	}()`}}},
	{"a bounded wait is told", "Deadlocks", []edit{
		{"waiting.go", "ctx.Deadline(); ends {", `ctx.Deadline(); ends && !broken("a bounded wait is told") {`}}},
	{"a wait that ends with a lease is told", "Deadlocks", []edit{
		{"waiting.go", "if s.t.req.Hold > 0 &&", `if s.t.req.Hold > 0 && !broken("a wait that ends with a lease is told") &&`}}},
	{"a lease that has ended is told", "Deadlocks", []edit{
		{"waiting.go", "\t\tif s.Err() == nil && !slices.Contains(tickets, s.t.req.ID) {\n", `		if (s.Err() == nil || broken("a lease that has ended is told")) && !slices.Contains(tickets, s.t.req.ID) {
`}}},
	{"a wait is told until one of its leases ends", "Deadlocks", []edit{
		{"waiting.go", "func stillHeld(ctx context.Context) (tickets []string) {\n", `func stillHeld(ctx context.Context) (tickets []string) {
	for s := range carried(ctx) {
		if s.Err() != nil && broken("a wait is told until one of its leases ends") {
			return nil
		}
	}
`}}},
	{"a wait is told after its end", "Deadlocks", []edit{
		{"waiting.go", "\t\ttimer.Stop()\n\t\tw.end()\n", `		timer.Stop()
		if !broken("a wait is told after its end") {
			w.end()
		}
`}}},
	{"nobody answers", "Deadlocks", []edit{
		{"loss.go", "\tcase t.asked <- struct{}{}:\n", `	case pick[chan struct{}]("nobody answers", nil, t.asked) <- struct{}{}:
`}}},
	{"the heart beats too slowly", "Healthy", []edit{
		{"heartbeat.go", "every := n.ttl / beats", `every := pick("the heart beats too slowly", n.ttl*2/3, n.ttl/beats)`},
		{"heartbeat.go", "if due >= r.at {", `if due >= r.at || broken("the heart beats too slowly") {`}}},
	{"sessions outlive their clients", "KilledHolder KilledWaiter KilledLeader KilledMember", []edit{
		{"client.go", "d.Open(call, driver.SessionOptions{TTL: cfg.ttl,", `d.Open(call, driver.SessionOptions{TTL: pick[time.Duration]("sessions outlive their clients", 100, 1) * cfg.ttl,`}}},
}

// The switch is in the environment, so that other processes have it too.
const switchOn = "INTERLOCK_BROKEN"

const switches = `package interlock

import "os"

var theFault = os.Getenv("` + switchOn + `")

func broken(name string) bool { return theFault == name }

func pick[T any](name string, wrong, right T) T {
	if broken(name) {
		return wrong
	}
	return right
}
`

// A core that is broken is not waited for for long.
var ttl, patience = func() (time.Duration, time.Duration) {
	if os.Getenv(switchOn) != "" {
		return 400 * time.Millisecond, 8 * time.Second
	}
	return time.Second, 0
}()

// The suite bites: each fault of the core fails the rules that it breaks, and each
// rule is failed by a fault.
func TestABrokenCoreFails(t *testing.T) {
	if os.Getenv(switchOn) != "" {
		t.Skip("this core is broken")
	}
	t.Parallel()
	binary := brokenCore(t)
	bitten := map[string]bool{}
	for _, f := range faults {
		for name := range strings.FieldsSeq(f.bites) {
			bitten[name] = true
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for name := range strings.FieldsSeq(f.bites) {
				r, ok := find(name)
				if !ok {
					t.Errorf("there is no rule %s", name)
					continue
				}
				suite := "TestMemlockInSimulatedTime"
				if r.processes {
					suite = "TestMemlock"
				}
				var out []byte
				var err error
				for tries := attempts(r); tries > 0 && err == nil; tries-- {
					cmd := exec.Command(binary, "-test.run", "^"+suite+"$/^"+name+"$", "-test.timeout", "1m")
					cmd.Env = append(os.Environ(), switchOn+"="+f.name)
					out, err = cmd.CombinedOutput()
				}
				failure := failed.FindStringSubmatch(string(out))
				switch {
				case err == nil:
					t.Errorf("%s does not notice", name)
				case failure == nil || !strings.Contains(string(out), r.promise):
					t.Errorf("%s does not say which promise is broken:\n%s", name, out)
				default:
					t.Logf("%s: %s", name, failure[1])
				}
			}
		})
	}
	for _, r := range rules {
		if !bitten[r.name] && !r.network { // memlock has none
			t.Errorf("no fault fails the rule %s", r.name)
		}
	}
}

// attempts is how often a rule may overlook a fault: whether a process that goes on after it was
// stopped does something before it hears from the backend is up to the scheduler.
func attempts(r rule) int {
	if r.processes {
		return 5
	}
	return 1
}

var failed = regexp.MustCompile(`(?m)^ +[a-z]+\.go:\d+: (.*)$`)

func find(name string) (rule, bool) {
	for _, r := range rules {
		if r.name == name {
			return r, true
		}
	}
	return rule{}, false
}

// brokenCore builds this test with a core in which each fault can be switched on.
func brokenCore(t *testing.T) (binary string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := map[string]string{"broken.go": switches}
	for _, f := range faults {
		for _, e := range f.edits {
			if text[e.file] == "" {
				b, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					t.Fatal(err)
				}
				text[e.file] = string(b)
			}
			if n := strings.Count(text[e.file], e.old); n != 1 {
				t.Errorf("%q: %s has the text %q %d times, not once: the core has changed; break it in its new form", f.name, e.file, e.old, n)
			}
			text[e.file] = strings.Replace(text[e.file], e.old, e.new, 1)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, content := range text {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, file)] = path
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "broken.test")
	if out, err := exec.Command("go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build a core that is broken: %w\n%s", err, out))
	}
	return binary
}
