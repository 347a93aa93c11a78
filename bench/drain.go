package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
)

// drainVariable makes this program one process of the crowd.
const drainVariable = "INTERLOCK_BENCH_DRAIN"

const drainProcesses = 8

// drainCrowds lines up waiters in several processes behind one holder, releases, and
// watches them drain: in the order in which they joined, at a cost per
// hand-over that does not depend on their number.
func drainCrowds(ctx context.Context, r *report) error {
	r.header("waiters", "drained", "order kept", "time per hand-over", "exchanges per hand-over", "gap p50", "gap p99")
	for _, waiters := range []int{10, 100, 1000} {
		var all []drain
		for range *repeat {
			d, err := drainCrowd(ctx, waiters)
			if err != nil {
				return err
			}
			all = append(all, d)
		}
		slices.SortFunc(all, func(a, b drain) int { return int(a.each - b.each) })
		m := all[len(all)/2]
		order := true
		for _, d := range all {
			order = order && d.ordered
		}
		r.line(strconv.Itoa(waiters), strconv.Itoa(m.drained), fmt.Sprint(order), m.each.String(),
			fmt.Sprintf("%.2f", m.exchanges), m.p50.String(), m.p99.String())
	}
	return nil
}

type drain struct {
	drained   int
	ordered   bool
	each      time.Duration
	exchanges float64
	p50, p99  time.Duration
}

// turn is what a process of the crowd reports of a lease.
type turn struct {
	Waiter    int
	Token     uint64
	At        int64 // when it was acquired
	Released  int64 // just before
	Exchanges uint64
}

func drainCrowd(ctx context.Context, waiters int) (d drain, err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return d, err
	}
	defer os.RemoveAll(dir)
	url := "sqlite:" + filepath.ToSlash(filepath.Join(dir, "locks.db"))
	c, err := interlock.Open(ctx, url)
	if err != nil {
		return d, err
	}
	defer c.Close()
	first, err := c.Mutex("crowd").Acquire(ctx)
	if err != nil {
		return d, err
	}
	var turns []turn
	var mu sync.Mutex
	var wg sync.WaitGroup
	for p := range drainProcesses {
		mine := waiters / drainProcesses
		if p < waiters%drainProcesses {
			mine++
		}
		cmd := exec.CommandContext(ctx, os.Args[0], url, strconv.Itoa(p), strconv.Itoa(mine))
		cmd.Env = append(os.Environ(), drainVariable+"=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return d, err
		}
		if err := cmd.Start(); err != nil {
			return d, err
		}
		defer cmd.Wait()
		wg.Go(func() {
			for s := bufio.NewScanner(out); s.Scan(); {
				var t turn
				if json.Unmarshal(s.Bytes(), &t) == nil {
					mu.Lock()
					turns = append(turns, t)
					mu.Unlock()
				}
			}
		})
	}
	order, err := lineUp(ctx, c, waiters)
	if err != nil {
		return d, err
	}
	began := time.Now()
	if err := first.Release(); err != nil {
		return d, err
	}
	wg.Wait()
	slices.SortFunc(turns, func(a, b turn) int { return int(a.At - b.At) })
	return judge(turns, order, began, waiters)
}

// lineUp waits until all stand in line and returns their notes in order.
func lineUp(ctx context.Context, c *interlock.Client, waiters int) (order []string, err error) {
	for q, err := range c.Follow(ctx, "crowd") {
		if err != nil {
			return nil, err
		}
		if len(q.Waiters) == waiters {
			for _, m := range q.Waiters {
				order = append(order, m.Note)
			}
			return order, nil
		}
	}
	return nil, ctx.Err()
}

func judge(turns []turn, order []string, began time.Time, waiters int) (d drain, err error) {
	d.drained = len(turns)
	d.ordered = len(turns) == len(order)
	var gaps []time.Duration
	var exchanges uint64
	for i, t := range turns {
		if d.ordered && order[i] != strconv.Itoa(t.Waiter) {
			d.ordered = false
		}
		exchanges += t.Exchanges
		if i > 0 {
			if t.At < turns[i-1].Released || t.Token <= turns[i-1].Token {
				return d, fmt.Errorf("two hold the lock: %+v and %+v", turns[i-1], t)
			}
			gaps = append(gaps, time.Duration(t.At-turns[i-1].Released))
		}
	}
	if len(gaps) == 0 {
		return d, fmt.Errorf("%d of %d waiters drained", len(turns), waiters)
	}
	slices.Sort(gaps)
	d.p50, d.p99 = gaps[len(gaps)/2], gaps[len(gaps)*99/100]
	d.each = time.Duration(turns[len(turns)-1].At-began.UnixNano()) / time.Duration(waiters)
	d.exchanges = float64(exchanges) / float64(waiters)
	return d, nil
}

// drainProcess is one process: it has its waiters stand in line, and reports
// each turn when all are over.
func drainProcess() error {
	url := os.Args[1]
	process, _ := strconv.Atoi(os.Args[2])
	waiters, _ := strconv.Atoi(os.Args[3])
	ctx := context.Background()
	c, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close()
	turns := make(chan turn, waiters)
	errs := make(chan error, waiters)
	joined := c.Exchanges()
	for i := range waiters {
		go func() {
			id := process*1000000 + i
			lease, err := c.Mutex("crowd", interlock.StrictOrder(), interlock.Note(strconv.Itoa(id))).Acquire(ctx)
			if err != nil {
				errs <- err
				return
			}
			t := turn{Waiter: id, Token: lease.Token(), At: time.Now().UnixNano()}
			t.Released = time.Now().UnixNano()
			if err := lease.Release(); err != nil {
				errs <- err
				return
			}
			turns <- t
		}()
	}
	var all []turn
	for range waiters {
		select {
		case t := <-turns:
			all = append(all, t)
		case err := <-errs:
			return err
		}
	}
	if len(all) > 0 {
		all[0].Exchanges = c.Exchanges() - joined // Joins, Leaves and heartbeats of all
	}
	e := json.NewEncoder(os.Stdout)
	for _, t := range all {
		if err := e.Encode(t); err != nil {
			return err
		}
	}
	return nil
}
