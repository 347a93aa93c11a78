package exchangetest

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
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
