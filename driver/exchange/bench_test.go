package exchange_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// ready is a store whose exchanges take no time.
type ready struct {
	exchange.Store
	exchange.Changer
}

func (ready) Traits() exchange.Traits { return exchange.Traits{Bounded: true} }
func (ready) Begin(context.Context, exchange.Session) (exchange.Begun, error) {
	return exchange.Begun{}, nil
}
func (r ready) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, r, changes, answer)
}
func (ready) Leave(context.Context, exchange.Leave) (bool, error) { return false, nil }
func (ready) Close()                                              {}

func (ready) Join(context.Context, exchange.Join) (exchange.Status, error) { return held, nil }

func (ready) End(context.Context, exchange.Session, []exchange.Leave) ([]string, error) {
	return nil, nil
}

func (ready) Listen(context.Context, string, func(), func(exchange.Event)) error {
	return errors.ErrUnsupported
}

// BenchmarkJoinAndLeave shows what the client itself costs.
func BenchmarkJoinAndLeave(b *testing.B) {
	d := exchange.New(ready{}, exchange.NewMailbox())
	defer d.Close()
	s, err := d.Open(b.Context(), driver.SessionOptions{TTL: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	r := request()
	b.ReportAllocs()
	for b.Loop() {
		r.ID = exchange.NewID()
		t, err := s.Join(b.Context(), r)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Leave(b.Context(), t, true); err != nil {
			b.Fatal(err)
		}
	}
}
