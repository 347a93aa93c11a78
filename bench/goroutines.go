package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
)

// goroutines compares many goroutines that hand the lock on among themselves
// with the same ones when each asks the backend, and with a bare loop over the
// driver.
func goroutines(ctx context.Context, r *report) error {
	const crowd = 10000
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "locks.db")
	c, err := interlock.Open(ctx, "sqlite:"+filepath.ToSlash(path))
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := sqlitelock.New(ctx, path)
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Hour}) // nobody renews it here
	if err != nil {
		return err
	}
	contenders := []contender{
		{"driver: Join, Await, Leave", together(crowd, bareCycle(s, "bare")), crowd},
		{"StrictOrder", together(crowd, cycle(c.Mutex("strict", interlock.StrictOrder()))), crowd},
		{"default", together(crowd, cycle(c.Mutex("default"))), 100 * crowd},
	}
	times, err := compare(contenders)
	if err != nil {
		return err
	}
	r.header("10,000 goroutines on sqlite", "cycles per second", "of the bare driver", "of StrictOrder")
	for i, c := range contenders {
		r.line(c.name, perSecond(times[i]), ratio(times[0], times[i]), ratio(times[1], times[i]))
	}
	return nil
}

// together has so many goroutines share n cycles.
func together(crowd int, cycle func() error) func(int) (time.Duration, error) {
	return func(n int) (time.Duration, error) {
		var wg sync.WaitGroup
		errs := make(chan error, crowd)
		began := time.Now()
		for range crowd {
			wg.Go(func() {
				for range n / crowd {
					if err := cycle(); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		return time.Since(began), <-errs
	}
}

// cycle also checks that it is alone.
func cycle(l *interlock.Lock) func() error {
	var inside, last int
	return func() error {
		lease, err := l.Acquire(context.Background())
		if err != nil {
			return err
		}
		inside++
		if inside != 1 || int(lease.Token()) <= last {
			return fmt.Errorf("%d hold the lock, token %d after %d", inside, lease.Token(), last)
		}
		last = int(lease.Token())
		inside--
		return lease.Release()
	}
}

func bare(s driver.Session, queue string) func(int) (time.Duration, error) {
	cycle := bareCycle(s, queue)
	return func(n int) (time.Duration, error) {
		began := time.Now()
		for range n {
			if err := cycle(); err != nil {
				return 0, err
			}
		}
		return time.Since(began), nil
	}
}

func bareCycle(s driver.Session, queue string) func() error {
	return func() error {
		var id [16]byte
		_, _ = rand.Read(id[:])
		ctx := context.Background()
		t, err := s.Join(ctx, driver.Request{ID: hex.EncodeToString(id[:]), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1})
		if err == nil && !t.Held {
			t, err = s.Await(ctx, t)
		}
		if err != nil {
			return err
		}
		return s.Leave(ctx, t, true)
	}
}
