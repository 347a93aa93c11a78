package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// cellOf changes one cell, and makes sure that its versions only grow.
type cellOf struct {
	t    *testing.T
	d    driver.Driver
	last uint64
}

func (c *cellOf) swap(s driver.Swap) {
	c.t.Helper()
	s.ID, s.Name = exclusive("").ID, "c"
	got, err := c.d.Swap(c.t.Context(), s)
	if err != nil {
		c.t.Fatalf("Swap of version %d: %v", s.Version, err)
	}
	if got.Version <= c.last {
		c.t.Fatalf("version %d after %d", got.Version, c.last)
	}
	c.last = got.Version
}

func (c *cellOf) load() driver.Cell {
	c.t.Helper()
	got := errtest.Must(c.d.Load(c.t.Context(), "c"))(c.t)
	return got
}

// Promise: versions of a cell grow when the server's clock is set back, also over a
// deletion that was hours ago.
func TestVersionsGrowWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, _ := session(t, s.URL(), time.Minute)
	c := &cellOf{t: t, d: d}
	c.swap(driver.Swap{Value: []byte("a")})
	s.StepClock(-3 * time.Hour)
	c.swap(driver.Swap{Version: c.last, Value: []byte("b")})
	c.swap(driver.Swap{Version: c.last, Delete: true})
	s.StepClock(2 * time.Hour)
	c.swap(driver.Swap{Version: c.load().Version, Value: []byte("c")})
}

// Promise: a value that was deleted and set again stays.
func TestAValueThatIsSetAgainStays(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, _ := session(t, s.URL(), time.Minute)
	c := &cellOf{t: t, d: d}
	c.swap(driver.Swap{Value: []byte("a")})
	c.swap(driver.Swap{Version: c.last, Delete: true})
	c.swap(driver.Swap{Version: c.last, Value: []byte("b")})
	s.StepClock(100 * 24 * time.Hour)
	if got := c.load(); !got.Exists || got.Version != c.last || string(got.Value) != "b" {
		t.Errorf("the cell is %+v", got)
	}
}

// Promise: a Swap that was refused stays so when it is repeated, though the version that
// it wanted has come since.
func TestARefusedSwapStaysRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, _ := session(t, s.URL(), time.Minute)
	c := &cellOf{t: t, d: d}
	c.swap(driver.Swap{Value: []byte("a")})
	s.StepClock(-time.Hour) // the next version is one more
	early := driver.Swap{ID: exclusive("").ID, Name: "c", Version: c.last + 1, Value: []byte("early")}
	if got, err := d.Swap(t.Context(), early); !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("Swap of a version that is still to come: %+v, %v", got, err)
	}
	c.swap(driver.Swap{Version: c.last, Value: []byte("b")})
	if c.last != early.Version {
		t.Fatalf("version %d has come, not %d", c.last, early.Version)
	}
	if got, err := d.Swap(t.Context(), early); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("the same Swap once more: %+v, %v", got, err)
	}
}
