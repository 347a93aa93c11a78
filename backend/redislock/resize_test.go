package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

func permitsOf(queue string, units, capacity int64) driver.Request {
	r := request(queue, units, capacity)
	r.Kind = driver.Semaphore
	return r
}

// Promise: the number of permits that was set stays for ever, also while nobody uses them, and
// keeps the short way of a mutex closed. When it is taken back, what is held stands for its time.
func TestTheNumberOfPermitsStaysForEver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, _ := session(t, s.URL(), time.Hour)
	resize := func(capacity int64) {
		t.Helper()
		noError(t, d.Resize(t.Context(), "q", capacity))
	}
	resize(3)
	refused := func(r driver.Request) {
		t.Helper()
		_, a := session(t, s.URL(), time.Hour)
		if tk, err := a.Join(t.Context(), r); !errors.Is(err, driver.ErrMismatch) {
			t.Fatalf("a %s of %d where three permits were set: %+v, %v", r.Kind, r.Capacity, tk, err)
		}
	}
	for _, later := range []time.Duration{40 * 24 * time.Hour, 2 * time.Hour, 2 * time.Hour} { // of a queue that was never used, and of one that was
		s.StepClock(later)
		refused(request("q", 1, 1))
		refused(permitsOf("q", 1, 5))
		_, a := session(t, s.URL(), time.Hour)
		tk := errtest.Must(a.Join(t.Context(), permitsOf("q", 3, 3)))(t)
		noError(t, a.Leave(t.Context(), tk, true))
		refused(request("q", 1, 1))
	}

	_, a := session(t, s.URL(), time.Hour)
	long := permitsOf("q", 1, 3)
	long.Hold = 10 * time.Hour
	held := errtest.Must(a.Join(t.Context(), long))(t)
	resize(0)
	s.StepClock(5 * time.Hour)
	_, b := session(t, s.URL(), time.Hour)
	if tk, err := b.Join(t.Context(), permitsOf("q", 5, 5)); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("five permits, while one of three is held: %+v, %v", tk, err)
	}
	errtest.Is(t, b.Leave(t.Context(), held, true), nil, "a permit of ten hours, after five")
	if tk, err := b.Join(t.Context(), request("q", 1, 1)); err != nil || !tk.Held {
		t.Errorf("a mutex, once the number is forgotten: %+v, %v", tk, err)
	}
	if ttl := do(t, s, "PTTL", "interlock:{q}:t"); ttl == int64(-1) {
		t.Error("the last token stays for ever, although the number was forgotten")
	}
}

// Promise: a script of Resize does a bounded amount of work, however long the line is.
func TestNoScriptOfResizeDoesEverything(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), time.Hour)
	held := errtest.Must(a.Join(t.Context(), permitsOf("q", 2, 3)))(t)
	waiting, b := session(t, s.URL(), time.Hour)
	joinMany(t, b, 1500, func() driver.Request { return permitsOf("q", 2, 3) })
	joinMany(t, b, 1500, func() driver.Request { return permitsOf("q", 3, 3) })
	noError(t, waiting.Close()) // it would ask about each
	commands, scripts := effort(t, s)
	noError(t, d.Resize(t.Context(), "q", 2))
	c, n := effort(t, s)
	t.Logf("%d commands in %d scripts", c-commands, n-scripts)
	if c-commands > 1000*(n-scripts) || n-scripts < 15 {
		t.Errorf("%d commands in %d scripts", c-commands, n-scripts)
	}
	q, err := d.Follow(t.Context(), "q", "")
	if err != nil || len(q.Members) != 1501 || q.Members[0].ID != held.ID {
		t.Errorf("1501 fit, and %d are there: %v", len(q.Members), err)
	}
}

// Promise: the shortest way of a hand-over grants nobody while more is held than the number of
// permits, also when that number is not kept any more.
func TestAHandOverWaitsUntilEnoughHaveLeft(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), time.Hour)
	line := []driver.Ticket{{}, {}, {}}
	for i := range line {
		line[i] = errtest.Must(a.Join(t.Context(), permitsOf("q", 2, 4)))(t)
	}
	for _, capacity := range []int64{2, 0} {
		noError(t, d.Resize(t.Context(), "q", capacity))
	}
	for i, held := range []bool{false, true} {
		noError(t, a.Leave(t.Context(), line[i], true))
		q, err := d.Follow(t.Context(), "q", "")
		if err != nil || len(q.Members) != 2-i || q.Members[1-i].Held != held {
			t.Fatalf("%d of two holders have left, and the queue of 2 is %+v, %v", i+1, q, err)
		}
	}
}

// Promise: the number is set also where so many dead ones of another kind stand that one script does not take them all
// out.
func TestTheNumberOfPermitsIsSetBehindManyDead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, _ := session(t, s.URL(), time.Hour)
	dead, b := session(t, s.URL(), 10*time.Second)
	joinMany(t, b, 150, func() driver.Request { return request("q", 1, driver.RWCapacity) })
	noError(t, dead.Close())
	s.StepClock(time.Minute)
	noError(t, d.Resize(t.Context(), "q", 3))
	if q, err := d.Follow(t.Context(), "q", ""); err != nil || !q.Resized || q.Capacity != 3 {
		t.Errorf("after Resize to 3: %+v, %v", q, err)
	}
}
