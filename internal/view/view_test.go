package view

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// member is a holder or waiter whose ID is its owner.
func member(owner string, since int) interlock.Member {
	return interlock.Member{ID: owner, Owner: owner, Units: 1, Since: at(since), Until: at(1000)}
}

func holder(owner string, since int, token uint64) interlock.Member {
	m := member(owner, since)
	m.Token = token
	return m
}

func names(locks []interlock.Queue) (out []string) {
	for _, q := range locks {
		out = append(out, q.Name)
	}
	return out
}

// Promise: a choice filters by text, owner, waiters and age, and sorts by what its order says; what is not known comes
// last.
func TestAChoiceFiltersAndSorts(t *testing.T) {
	locks := []interlock.Queue{
		{Name: "a", Holders: []interlock.Member{holder("web-1", 50, 1)}, Waiters: []interlock.Member{member("web-2", 90)}},
		{Name: "b", Holders: []interlock.Member{holder("cron", 10, 1)}},
		{Name: "c", Holders: []interlock.Member{holder("web-2", 80, 1)}, Waiters: []interlock.Member{member("x", 85), member("cron", 99)}},
		{Name: "d", Holders: []interlock.Member{{Owner: "old library", Note: "Nightly"}}},
	}
	for what, c := range map[string]struct {
		Choice
		want []string
	}{
		"all":            {Choice{}, []string{"a", "b", "c", "d"}},
		"waiting":        {Choice{Waiting: true}, []string{"a", "c"}},
		"owner":          {Choice{Owner: "web"}, []string{"a", "c"}},
		"older":          {Choice{Older: 45 * time.Second}, []string{"a", "b"}},
		"text in a note": {Choice{Text: "nightly"}, []string{"d"}},
		"most waiters":   {Choice{Order: "waiting"}, []string{"c", "a", "b", "d"}},
		"oldest wait":    {Choice{Order: "wait"}, []string{"c", "a", "b", "d"}},
		"oldest holder":  {Choice{Order: "held"}, []string{"b", "a", "c", "d"}},
	} {
		if got := names(c.Of(locks, at(100))); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	if got := names((Choice{Text: "CRON"}).Of(locks, at(100))); !reflect.DeepEqual(got, []string{"b", "c"}) {
		t.Errorf("text of an owner: %v", got)
	}
	if (Choice{Order: "size"}).Check() == nil || (Choice{Order: "wait"}).Check() != nil {
		t.Error("an order that does not exist is taken, or one that does is not")
	}
}

// Promise: the history tells apart how grants ended, and an incomplete sample ends none.
func TestHowGrantsEnded(t *testing.T) {
	h := NewHistory()
	short := holder("dies", 0, 4)
	short.Until = at(15)
	h.add(Sample{At: at(0), Locks: []interlock.Queue{{Name: "old", Holders: []interlock.Member{holder("first", 0, 1)}}}})
	h.add(Sample{At: at(10), Locks: []interlock.Queue{
		{Name: "died", Holders: []interlock.Member{short}},
		{Name: "evicted", Holders: []interlock.Member{holder("taken", 0, 5)}},
		{Name: "old", Holders: []interlock.Member{holder("next", 0, 2)}},
		{Name: "over", Holders: []interlock.Member{holder("stopped", 0, 3)}},
	}})
	h.Evicted("taken")
	h.add(Sample{At: at(15), Err: errors.New("the rest cannot be read")})
	h.add(Sample{At: at(18), More: true, Locks: []interlock.Queue{{Name: "a"}}})
	if g := h.Grants("died"); len(g) != 1 || !g[0].To.IsZero() {
		t.Errorf("an incomplete sample has ended a grant: %+v", g)
	}
	h.add(Sample{At: at(20), Locks: []interlock.Queue{{Name: "over", Overruns: []interlock.Overrun{{ID: "stopped", Token: 3}}}}})
	for name, want := range map[string]string{"died": Expired, "evicted": Evicted, "old": Released, "over": Overran} {
		g := h.Grants(name)
		if len(g) == 0 || g[0].End != want || !g[0].To.Equal(at(20)) || !g[0].From.Equal(at(10)) || !g[0].Begun {
			t.Errorf("%s: %+v, want %s", name, g, want)
		}
	}
	if g := h.Grants("old"); len(g) != 2 || g[1].Begun || g[1].Owner != "first" || g[1].End != Released {
		t.Errorf("of the lock that was handed on: %+v", g)
	}
}

// Promise: an episode is one waiter that waits for one holder without a break; the longest come first.
func TestEpisodes(t *testing.T) {
	h := NewHistory()
	look := func(second int, holders, waiters []interlock.Member) {
		h.add(Sample{At: at(second), Locks: []interlock.Queue{{Name: "x", Holders: holders, Waiters: waiters}}})
	}
	a, b, c := holder("a", 0, 1), holder("b", 2, 2), member("c", 3)
	look(0, []interlock.Member{a}, []interlock.Member{b})
	look(10, []interlock.Member{a}, []interlock.Member{b, c})
	look(15, []interlock.Member{b}, []interlock.Member{c})
	look(18, []interlock.Member{b}, []interlock.Member{c})
	var got []string
	for _, e := range h.Episodes(10) {
		got = append(got, fmt.Sprintf("%s for %s %v %v", e.Waiter.Owner, e.Blocker.Owner, e.Waited(), e.Going))
	}
	want := []string{"b for a 10s false", "c for b 3s true", "c for a 0s false"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := len(h.Episodes(1)); n != 1 {
		t.Errorf("%d episodes of at most one", n)
	}
	for i, name := range []string{"other", "x"} { // one lock alone, between two samples
		h.Look(interlock.Queue{Name: name, Holders: []interlock.Member{holder("c", 3, 3)}}, at(19+i))
		if e := h.Episodes(2)[1]; e.Going != (name == "other") {
			t.Errorf("after a look at %s: %+v", name, e)
		}
	}
}

// Promise: a history stays within its bounds, whatever it is shown.
func TestAHistoryIsBounded(t *testing.T) {
	h := NewHistory()
	for round := range 2 * mostGrants {
		h.add(Sample{At: at(round), Locks: []interlock.Queue{{Name: "x", Holders: []interlock.Member{holder(fmt.Sprint(round), 0, uint64(round+1))}}}})
	}
	if n := len(h.Grants("x")); n != mostGrants+1 {
		t.Errorf("%d grants of one lock", n)
	}
	var locks []interlock.Queue
	for i := range mostNames + 100 {
		locks = append(locks, interlock.Queue{Name: fmt.Sprint(i), Holders: []interlock.Member{holder("h", 0, 1)}})
	}
	crowd := interlock.Queue{Name: "crowd", Holders: []interlock.Member{holder("h", 0, 1)}}
	for i := range mostPairs + 100 {
		crowd.Waiters = append(crowd.Waiters, member(fmt.Sprint(i), 0))
	}
	h.add(Sample{At: at(1000), Locks: append(locks, crowd)})
	if n := len(h.going); n != mostPairs {
		t.Errorf("%d episodes go on", n)
	}
	h.add(Sample{At: at(1001)})
	if n, e := len(h.locks), len(h.ended); n != mostNames || e != mostEpisodes {
		t.Errorf("%d names, %d ended episodes", n, e)
	}
	for round := range 4 { // of very many locks no sample has all
		var locks []interlock.Queue
		for i := range MostLocks {
			locks = append(locks, interlock.Queue{Name: fmt.Sprintf("%06d", i*7+round), Holders: []interlock.Member{holder("h", 0, 1)}})
		}
		h.add(Sample{At: at(2000 + round), Locks: locks, Err: errors.New("one cannot be read")})
	}
	if n := len(h.locks); n > 2*MostLocks {
		t.Errorf("%d names are held", n)
	}
}

// Promise: waits go from owner to owner, with the locks that they are for.
func TestWhoWaitsForWhom(t *testing.T) {
	got := Waits([]interlock.Queue{
		{Name: "y", Holders: []interlock.Member{holder("a", 0, 1)}, Waiters: []interlock.Member{member("b", 0), member("b", 1), {ID: "no name"}}},
		{Name: "x", Holders: []interlock.Member{holder("a", 0, 1)}, Waiters: []interlock.Member{member("b", 0), member("c", 0)}},
		{Name: "z", Holders: []interlock.Member{holder("b", 0, 1)}, Waiters: []interlock.Member{member("a", 0)}},
	})
	want := []Wait{{"b", "a", []string{"x", "y"}, 3}, {"a", "b", []string{"z"}, 1}, {"c", "a", []string{"x"}, 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// holding returns a client that holds the lock x, until done.
func holding(t *testing.T, d *memlock.Driver, opts ...interlock.ClientOption) (c *interlock.Client, done func()) {
	t.Helper()
	c = errtest.Must(interlock.New(t.Context(), d, opts...))(t)
	lease := errtest.Must(c.Mutex("x").Acquire(t.Context()))(t)
	return c, func() {
		_ = lease.Release()
		c.Close()
	}
}

// Promise: however many look, the backend is listed once in each period, and not at all when all have gone.
func TestSamplesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, done := holding(t, memlock.New(), interlock.TTL(time.Hour)) // no heartbeat falls into a sample
		defer done()
		s := NewSampler(c, "", NewHistory())
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		var mu sync.Mutex
		times := map[time.Time]int{}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				var last time.Time
				for {
					sample, err := s.Next(ctx, last)
					if err != nil {
						return
					}
					if !slices.Equal(names(sample.Locks), []string{"x"}) || !sample.At.After(last) {
						t.Errorf("at %v after %v: %v", sample.At, last, names(sample.Locks))
					}
					if sample.Exchanges != 2 { // the locks, and the records of work that overruns
						t.Errorf("a sample took %d exchanges", sample.Exchanges)
					}
					last = sample.At
					mu.Lock()
					times[last]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(times) != 11 {
			t.Errorf("%d samples in 10.5 s", len(times))
		}
		for when, n := range times {
			if n != 20 {
				t.Errorf("the sample of %v has reached %d of 20", when, n)
			}
		}
		before := s.Last().At
		time.Sleep(time.Minute)
		if !s.Last().At.Equal(before) {
			t.Error("there was a sample that was not asked for")
		}
	})
}

// Promise: a call that is given up stops no other.
func TestASampleThatIsGivenUpStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := errtest.Must(interlock.New(t.Context(), memlock.New()))(t)
		defer c.Close()
		s := NewSampler(c, "", nil)
		first := errtest.Must(s.Next(t.Context(), time.Time{}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := s.Next(ctx, first.At)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		errtest.Is(t, <-gone, context.Canceled)
		if _, err := s.Next(t.Context(), first.At); err != nil {
			t.Error(err)
		}
	})
}

// Promise: a backend that does not answer leaves the latest sample as it is, the error says why, and the first answer
// ends the outage at once, however long it was.
func TestAnOutageKeepsTheLatestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		c, done := holding(t, d, interlock.TTL(time.Hour))
		defer done()
		s := NewSampler(c, "", nil)
		errtest.Must(s.Next(t.Context(), time.Time{}))(t)
		d.Faults().Cut()
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := s.Next(ctx, time.Time{})
		cancel()
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if got := names(s.Last().Locks); !slices.Equal(got, []string{"x"}) {
			t.Errorf("the latest sample has %v", got)
		}
		d.Faults().Heal()
		began := time.Now()
		if sample, err := s.Next(t.Context(), s.Last().At); err != nil || len(sample.Locks) != 1 || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v: %v", sample.Locks, time.Since(began), err)
		}
	})
}

// Promise: a list that took long, since the backend stood still for once, does not put off the one after it.
func TestAListThatTookLongDoesNotPutOffTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memlock.New()
		c, done := holding(t, d, interlock.TTL(time.Hour))
		defer done()
		s := NewSampler(c, "", nil)
		usual := errtest.Must(s.Next(t.Context(), time.Time{}))(t)
		hung := d.Faults().Before("Queues", 0).Hang()
		time.AfterFunc(7*time.Second, hung.Deliver)
		late := errtest.Must(s.Next(t.Context(), usual.At))(t)
		if late.Took < 5*time.Second {
			t.Fatalf("the list took %v: nothing stood still", late.Took)
		}
		next := errtest.Must(s.Next(t.Context(), late.At))(t)
		if after := next.At.Sub(late.At); after > 2*time.Second {
			t.Errorf("the next list comes %v later", after)
		}
	})
}

// Promise: of several holders an episode names the one that holds for the longest.
func TestAnEpisodeNamesTheOldestHolder(t *testing.T) {
	h := NewHistory()
	h.add(Sample{At: at(0), Locks: []interlock.Queue{{
		Name: "x", Holders: []interlock.Member{holder("young", 9, 2), holder("old", 3, 1), {ID: "of another library"}}, Waiters: []interlock.Member{member("w", 9)},
	}}})
	if e := h.Episodes(1); len(e) != 1 || e[0].Blocker.ID != "old" {
		t.Errorf("%+v", e)
	}
}

// Promise: of too many locks the free ones are forgotten first, the one that has not changed for longest before all.
func TestWhatIsForgotten(t *testing.T) {
	h := NewHistory()
	many := func(from, n int) (locks []interlock.Queue) {
		for i := range n {
			locks = append(locks, interlock.Queue{Name: fmt.Sprintf("%05d", from+i), Holders: []interlock.Member{holder("h", 0, 1)}})
		}
		return locks
	}
	stays := interlock.Queue{Name: "z", Holders: []interlock.Member{holder("h", 0, 1)}}
	h.add(Sample{At: at(0), Locks: append(many(0, 5), stays)})
	h.add(Sample{At: at(1), Locks: append(many(5, mostNames-6), stays)})
	h.add(Sample{At: at(2), Locks: append(many(mostNames-1, 5), stays)})
	h.add(Sample{At: at(3), Locks: []interlock.Queue{stays}})
	for name, there := range map[string]bool{"00000": false, "00004": false, "00005": true, "05003": true, "z": true} {
		if n := len(h.Grants(name)); (n > 0) != there {
			t.Errorf("%s has %d grants", name, n)
		}
	}
	if n := len(h.locks); n != mostNames {
		t.Errorf("%d names", n)
	}
}

// Promise: people see the side or part of a lock.
func TestWhatIsHeld(t *testing.T) {
	for want, of := range map[string]struct {
		kind            string
		units, capacity int64
	}{
		"mutex": {"mutex", 1, 1}, "writer": {"rwmutex", 8, 8}, "reader": {"rwmutex", 1, 8}, "2 of 5": {"semaphore", 2, 5},
	} {
		if got := Held(interlock.Queue{Kind: of.kind, Capacity: of.capacity}, interlock.Member{Units: of.units}); got != want {
			t.Errorf("%+v is %q, want %q", of, got, want)
		}
	}
}
