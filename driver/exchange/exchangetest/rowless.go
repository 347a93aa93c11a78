package exchangetest

import "github.com/interlock-go/interlock/driver/exchange"

// Rowless is one client of a world in which sessions have no rows. Each ticket has an end, which a
// heartbeat moves if it names the ticket. The world has no other clients than these.
type Rowless struct{ exchange.Store } // hides what is optional

var _ exchange.Traited = Rowless{}

// Rowless makes a client.
func (w *World) Rowless() Rowless {
	s := w.Store()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rowless = true
	return Rowless{s}
}

// Driver is [DriverOf] the client.
func (r Rowless) Driver() *exchange.Driver { return DriverOf(r) }

// Traits implements [exchange.Traited].
func (Rowless) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, LookSettles: true, Together: 8}
}
