package driver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Checked puts the checks of arguments above a driver, so that they are the same on every
// backend. Package interlock calls all drivers through it. An argument that is refused
// reaches no backend: ErrInvalid, or ErrTooLarge.
func Checked(d Driver) Driver {
	if _, ok := d.(checked); ok {
		return d
	}
	return checked{d}
}

type checked struct{ Driver }

func (d checked) Open(ctx context.Context, o SessionOptions) (*Opened, error) {
	if o.TTL <= 0 {
		return nil, Invalid(fmt.Errorf("the TTL of %v is not positive", o.TTL))
	}
	s, err := d.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.Session = checkedSession{s.Session}
	return s, nil
}

func (d checked) Load(ctx context.Context, name string) (Cell, error) {
	if err := CheckCell(name); err != nil {
		return Cell{}, err
	}
	return d.Driver.Load(ctx, name)
}

func (d checked) Swap(ctx context.Context, s Swap) (Cell, error) {
	if s.Delete {
		s.Value = nil
	}
	switch err := errors.Join(CheckID(s.ID), CheckCell(s.Name)); {
	case err != nil:
		return Cell{}, err
	case len(s.Value) > MaxCell:
		return Cell{}, ErrTooLarge
	}
	return d.Driver.Swap(ctx, s)
}

func (d checked) Watch(ctx context.Context, name string, after uint64) (Cell, error) {
	if err := CheckCell(name); err != nil {
		return Cell{}, err
	}
	return d.Driver.Watch(ctx, name, after)
}

func (d checked) Follow(ctx context.Context, queue, after string) (Queue, error) {
	if err := CheckName(queue); err != nil {
		return Queue{}, err
	}
	return d.Driver.Follow(ctx, queue, after)
}

func (d checked) Ask(ctx context.Context, queue, id string, what Demand) error {
	if err := errors.Join(checkMember(id), CheckName(queue), checkDemand(what)); err != nil {
		return err
	}
	return d.Driver.Ask(ctx, queue, id, what)
}

func (d checked) Raise(ctx context.Context, queue string, floor uint64) error {
	if queue != "" {
		if err := CheckName(queue); err != nil {
			return err
		}
	}
	if floor >= MaxToken-1 {
		return Invalid(fmt.Errorf("raise: no token is larger than %d", floor))
	}
	return d.Driver.Raise(ctx, queue, floor)
}

func (d checked) Resize(ctx context.Context, queue string, capacity int64) error {
	if err := CheckName(queue); err != nil {
		return err
	}
	if capacity < 0 || capacity > MaxCapacity {
		return Invalid(fmt.Errorf("resize to %d: the capacity is 1 to %d, or 0 to forget it", capacity, int64(MaxCapacity)))
	}
	return d.Driver.Resize(ctx, queue, capacity)
}

type checkedSession struct{ Session }

func (s checkedSession) Join(ctx context.Context, r Request) (Ticket, error) {
	if err := errors.Join(checkTicket(Ticket{ID: r.ID, Queue: r.Queue}), CheckRequest(&r)); err != nil {
		return Ticket{}, err
	}
	return s.Session.Join(ctx, r)
}

func (s checkedSession) Await(ctx context.Context, t Ticket) (Ticket, error) {
	if err := checkTicket(t); err != nil {
		return Ticket{}, err
	}
	return s.Session.Await(ctx, t)
}

func (s checkedSession) Shrink(ctx context.Context, t Ticket, units int64) error {
	if err := checkTicket(t); err != nil {
		return err
	}
	if units < 1 {
		return Invalid(fmt.Errorf("shrink to %d units: at least 1 must stay", units))
	}
	return s.Session.Shrink(ctx, t, units)
}

func (s checkedSession) Keep(ctx context.Context, t Ticket, d time.Duration) error {
	if err := checkTicket(t); err != nil {
		return err
	}
	if d <= 0 {
		return Invalid(fmt.Errorf("keep for %v: it must be longer than 0", d))
	}
	return s.Session.Keep(ctx, t, d)
}

func (s checkedSession) Leave(ctx context.Context, t Ticket, clean bool) error {
	if err := checkTicket(t); err != nil {
		return err
	}
	return s.Session.Leave(ctx, t, clean)
}

func (s checkedSession) Renew(ctx context.Context, known []Ticket) ([]Renewed, error) {
	for _, t := range known {
		if err := checkTicket(t); err != nil {
			return nil, err
		}
	}
	return s.Session.Renew(ctx, known)
}

func checkTicket(t Ticket) error {
	if err := CheckID(t.ID); err != nil {
		return err
	}
	return CheckName(t.Queue)
}

// checkMember is CheckID for a ticket of any library: the others have IDs of other forms.
func checkMember(id string) error {
	if err := checkName(id, 0); err != nil {
		return Invalid(fmt.Errorf("the ID of a ticket: %w", err))
	}
	return nil
}

func checkDemand(d Demand) error {
	if d == Revoke || d == Evict || d == Force {
		return nil
	}
	return Invalid(errors.New("ask: only Revoke, Evict and Force can be asked for"))
}
