package exchangetest

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// Rowless is one client of a world in which sessions have no rows. Each ticket has an end, which a
// heartbeat moves if it names the ticket. The world has no other clients than these.
type Rowless struct {
	exchange.Store // hides what is optional
	s              *Store
}

var _ exchange.Traited = (*Rowless)(nil)

// Rowless makes a client.
func (w *World) Rowless() *Rowless {
	s := w.Store()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rowless = true
	return &Rowless{s, s}
}

// Driver is [DriverOf] the client.
func (r *Rowless) Driver() *exchange.Driver { return DriverOf(r) }

// Traits implements [exchange.Traited].
func (r *Rowless) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, LookSettles: true, Together: 8}
}

// Begin implements [exchange.Store].
func (r *Rowless) Begin(ctx context.Context, _ exchange.Session) (exchange.Begun, error) {
	_, err := r.Clock(ctx)
	return exchange.Begun{}, err
}

// End implements [exchange.Store].
func (r *Rowless) End(ctx context.Context, _ exchange.Session, tickets []exchange.Leave) ([]string, error) {
	return nil, do(ctx, r.s, func(now time.Time) error {
		for _, l := range tickets {
			if w := r.s.w; !w.has(Leavers) {
				leave := func(q *rows.Queue) error { return q.Leave(l) }
				_ = w.exchange(l.Queue, now, w.has(GrantInEnd), leave) // or it does not stand
			}
		}
		return nil
	})
}

// Renew implements [exchange.Store].
func (r *Rowless) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) (
	exchange.Renewal, error) {
	all, err := r.look(ctx, o, tickets, extend)
	for i := range all {
		all[i].Stray = i >= extend && !all[i].Fixed
	}
	return exchange.Renewal{Tickets: all}, err
}

// Look implements [exchange.Store].
func (r *Rowless) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	return r.look(ctx, o, tickets, 0)
}

// look settles the queues of tickets, and extends the first of these.
func (r *Rowless) look(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) (
	[]exchange.Status, error) {
	return request(ctx, r.s, func(now time.Time) (all []exchange.Status, err error) {
		w := r.s.w
		for i, ref := range tickets {
			_ = w.exchange(ref.Queue, now, false, func(q *rows.Queue) error {
				all = append(all, w.look(o, q, ref.ID, i < extend || w.has(Extend)))
				return nil
			})
		}
		return all, nil
	})
}
