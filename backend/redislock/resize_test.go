package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
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
		if err := d.Resize(t.Context(), "q", capacity); err != nil {
			t.Fatal(err)
		}
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
		tk, err := a.Join(t.Context(), permitsOf("q", 3, 3))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Leave(t.Context(), tk, true); err != nil {
			t.Fatal(err)
		}
		refused(request("q", 1, 1))
	}

	_, a := session(t, s.URL(), time.Hour)
	long := permitsOf("q", 1, 3)
	long.Hold = 10 * time.Hour
	held, err := a.Join(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	resize(0)
	s.StepClock(5 * time.Hour)
	_, b := session(t, s.URL(), time.Hour)
	if tk, err := b.Join(t.Context(), permitsOf("q", 5, 5)); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("five permits, while one of three is held: %+v, %v", tk, err)
	}
	if err := b.Leave(t.Context(), held, true); err != nil {
		t.Errorf("a permit of ten hours, after five: %v", err)
	}
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
	held, err := a.Join(t.Context(), permitsOf("q", 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	waiting, b := session(t, s.URL(), time.Hour)
	joinMany(t, b, 1500, func() driver.Request { return permitsOf("q", 2, 3) })
	joinMany(t, b, 1500, func() driver.Request { return permitsOf("q", 3, 3) })
	if err := waiting.Close(); err != nil { // it would ask about each
		t.Fatal(err)
	}
	commands, scripts := effort(t, s)
	if err := d.Resize(t.Context(), "q", 2); err != nil {
		t.Fatal(err)
	}
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
		var err error
		if line[i], err = a.Join(t.Context(), permitsOf("q", 2, 4)); err != nil {
			t.Fatal(err)
		}
	}
	for _, capacity := range []int64{2, 0} {
		if err := d.Resize(t.Context(), "q", capacity); err != nil {
			t.Fatal(err)
		}
	}
	for i, held := range []bool{false, true} {
		if err := a.Leave(t.Context(), line[i], true); err != nil {
			t.Fatal(err)
		}
		q, err := d.Follow(t.Context(), "q", "")
		if err != nil || len(q.Members) != 2-i || q.Members[1-i].Held != held {
			t.Fatalf("%d of two holders have left, and the queue of 2 is %+v, %v", i+1, q, err)
		}
	}
}

// Promise: the number is set also where so many dead ones of another kind stand that one script does not take them all out.
func TestTheNumberOfPermitsIsSetBehindManyDead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, _ := session(t, s.URL(), time.Hour)
	dead, b := session(t, s.URL(), 10*time.Second)
	joinMany(t, b, 150, func() driver.Request { return request("q", 1, driver.RWCapacity) })
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	s.StepClock(time.Minute)
	if err := d.Resize(t.Context(), "q", 3); err != nil {
		t.Fatal(err)
	}
	if q, err := d.Follow(t.Context(), "q", ""); err != nil || !q.Resized || q.Capacity != 3 {
		t.Errorf("after Resize to 3: %+v, %v", q, err)
	}
}
