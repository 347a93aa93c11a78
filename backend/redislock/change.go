package redislock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/clocktoken"
)

func (s *session) Shrink(ctx context.Context, t driver.Ticket, units int64) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if units < 1 {
		return driver.Invalid(fmt.Errorf("%d units: at least 1 must stay", units))
	}
	return s.change(ctx, t, shrinkScript, strconv.FormatInt(units, 10), func(*place) {})
}

func (s *session) Keep(ctx context.Context, t driver.Ticket, d time.Duration) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if d <= 0 {
		return driver.Invalid(fmt.Errorf("keep for %v: it must be longer than 0", d))
	}
	d = min(d, maxHold)
	return s.change(ctx, t, keepScript, micros(d+time.Microsecond), func(p *place) { p.fixed, p.hold = true, d })
}

// change runs a script about one ticket, and takes note of its success.
func (s *session) change(ctx context.Context, t driver.Ticket, c *script, arg string, done func(*place)) error {
	if err := driver.CheckID(t.ID); err != nil {
		return err
	}
	q, err := s.d.queue(t.Queue)
	if err != nil {
		return err
	}
	answer, err := s.d.runN(ctx, call{c, q.keys, []string{t.ID, s.id, arg}}, 2)
	if err != nil {
		return err
	}
	if answer[1] != 0 {
		s.d.settle(q)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if p := s.places[t.ID]; p != nil {
		switch answer[0] {
		case codeHeld:
			p.lone = false
			done(p)
		case codeGone:
			s.d.ended(p)
		}
	}
	return codeError(answer[0])
}

var errDemand = driver.Invalid(errors.New("ask: only Revoke, Evict and Force can be asked for"))

func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	letter := map[driver.Demand]string{driver.Revoke: "r", driver.Evict: "e", driver.Force: "x"}[what]
	if letter == "" {
		return errDemand
	}
	if err := driver.CheckID(id); err != nil {
		return err
	}
	q, err := d.queue(queue)
	if err != nil {
		return err
	}
	answer, err := d.runN(ctx, call{askScript, q.keys, []string{id, letter}}, 2)
	if err != nil {
		return err
	}
	if answer[1] != 0 {
		d.settle(q)
	}
	return codeError(answer[0])
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if floor >= driver.MaxToken-1 {
		return driver.Invalid(fmt.Errorf("raise to %d: no token would be left below %d", floor, uint64(driver.MaxToken)))
	}
	if queue == "" {
		return clocktoken.Pass(ctx, floor, d.earliest)
	}
	q, err := d.queue(queue)
	if err != nil {
		return err
	}
	answer, err := d.runN(ctx, call{raiseScript, q.keys, []string{strconv.FormatUint(floor, 10)}}, 2)
	if err != nil {
		return err
	}
	if answer[1] != 0 {
		d.settle(q)
	}
	return nil
}

// earliest is the time of the node whose clock is the furthest behind, in microseconds.
func (d *Driver) earliest(ctx context.Context) (micros int64, err error) {
	micros = math.MaxInt64
	for _, node := range d.client.Nodes() {
		d.exchanges.Add(1)
		at, err := node.Do(ctx, node.B().Time().Build()).AsIntSlice()
		if err == nil && len(at) != 2 {
			err = fmt.Errorf("TIME answers %d numbers", len(at))
		}
		if err != nil {
			return 0, d.failed(ctx, err)
		}
		micros = min(micros, at[0]*1_000_000+at[1])
	}
	return micros, nil
}
