package exchange_test

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

// Script replaces methods of a store: a test says what the backend answers, and when. A nil
// function leaves the method as it is.
type Script struct {
	Begin    func(context.Context, exchange.Session) (exchange.Begun, error)
	End      func(ctx context.Context, s exchange.Session, tickets []exchange.Leave) ([]string, error)
	Join     func(context.Context, exchange.Join) (exchange.Status, error)
	Keep     func(ctx context.Context, s exchange.Session, t exchange.Ref, d time.Duration) error
	Leave    func(context.Context, exchange.Leave) (bool, error)
	Withdraw func(ctx context.Context, s exchange.Session, queue string, ids []string, clean bool) ([]bool, bool, error)
	Renew    func(ctx context.Context, s exchange.Session, tickets []exchange.Ref, extend int) (exchange.Renewal, error)
	Look     func(ctx context.Context, s exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error)
	Detach   func(ctx context.Context, s exchange.Session, tickets []exchange.Ref) error
	Attach   func(ctx context.Context, s exchange.Session, tickets []exchange.Ref) error
	Tickets  func(ctx context.Context, s exchange.Session) ([]exchange.Ref, error)
	Settle   func(ctx context.Context, queue string) (bool, error)
	Read     func(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error)
	Load     func(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error)
	Listen   func(ctx context.Context, mailbox string, up func(), receive func(exchange.Event)) error
}

// scripted is a store in memory with a script.
type scripted struct {
	*exchangetest.Store
	Script Script
}

func newScripted() *scripted { return &scripted{Store: exchangetest.NewWorld().Store()} }

func (s *scripted) Driver() *exchange.Driver { return exchangetest.DriverOf(s) }

func (s *scripted) Traits() exchange.Traits { return exchange.Traits{} }

func (s *scripted) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

func (s *scripted) Begin(ctx context.Context, o exchange.Session) (exchange.Begun, error) {
	if s.Script.Begin != nil {
		return s.Script.Begin(ctx, o)
	}
	return s.Store.Begin(ctx, o)
}

func (s *scripted) End(ctx context.Context, o exchange.Session, tickets []exchange.Leave) ([]string, error) {
	if s.Script.End != nil {
		return s.Script.End(ctx, o, tickets)
	}
	return s.Store.End(ctx, o, tickets)
}

func (s *scripted) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	if s.Script.Join != nil {
		return s.Script.Join(ctx, j)
	}
	return s.Store.Join(ctx, j)
}

func (s *scripted) Keep(ctx context.Context, o exchange.Session, t exchange.Ref, d time.Duration) error {
	if s.Script.Keep != nil {
		return s.Script.Keep(ctx, o, t, d)
	}
	return s.Store.Keep(ctx, o, t, d)
}

func (s *scripted) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	if s.Script.Leave != nil {
		return s.Script.Leave(ctx, l)
	}
	return s.Store.Leave(ctx, l)
}

func (s *scripted) Withdraw(ctx context.Context, o exchange.Session, queue string, ids []string, clean bool) ([]bool, bool, error) {
	if s.Script.Withdraw != nil {
		return s.Script.Withdraw(ctx, o, queue, ids, clean)
	}
	return s.Store.Withdraw(ctx, o, queue, ids, clean)
}

func (s *scripted) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) (exchange.Renewal, error) {
	if s.Script.Renew != nil {
		return s.Script.Renew(ctx, o, tickets, extend)
	}
	return s.Store.Renew(ctx, o, tickets, extend)
}

func (s *scripted) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	if s.Script.Look != nil {
		return s.Script.Look(ctx, o, tickets)
	}
	return s.Store.Look(ctx, o, tickets)
}

func (s *scripted) Detach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	if s.Script.Detach != nil {
		return s.Script.Detach(ctx, o, tickets)
	}
	return s.Store.Detach(ctx, o, tickets)
}

func (s *scripted) Attach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	if s.Script.Attach != nil {
		return s.Script.Attach(ctx, o, tickets)
	}
	return s.Store.Attach(ctx, o, tickets)
}

func (s *scripted) Tickets(ctx context.Context, o exchange.Session) ([]exchange.Ref, error) {
	if s.Script.Tickets != nil {
		return s.Script.Tickets(ctx, o)
	}
	return s.Store.Tickets(ctx, o)
}

func (s *scripted) Settle(ctx context.Context, queue string) (bool, error) {
	if s.Script.Settle != nil {
		return s.Script.Settle(ctx, queue)
	}
	return s.Store.Settle(ctx, queue)
}

func (s *scripted) Read(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
	if s.Script.Read != nil {
		return s.Script.Read(ctx, queue, f)
	}
	return s.Store.Read(ctx, queue, f)
}

func (s *scripted) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	if s.Script.Load != nil {
		return s.Script.Load(ctx, name, f)
	}
	return s.Store.Load(ctx, name, f)
}

func (s *scripted) Listen(ctx context.Context, mailbox string, up func(), receive func(exchange.Event)) error {
	if s.Script.Listen != nil {
		return s.Script.Listen(ctx, mailbox, up, receive)
	}
	return s.Store.Listen(ctx, mailbox, up, receive)
}
