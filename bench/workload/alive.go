package workload

import (
	"context"
	"fmt"
	"math"
	"time"
)

// aliveTTL is short, so that a whole TTL can be watched.
const aliveTTL = 6 * time.Second

var alive = []Column{
	{Figure: "exchanges/interval", Decimals: 1, Less: true}, {Figure: "commands/TTL"}, {Figure: "scripts/TTL"},
	{Figure: "transactions/TTL"}, {Figure: "KiB to server/TTL", Decimals: 1}, {Figure: "KiB from server/TTL", Decimals: 1},
	{Figure: "client CPU ms/TTL", Decimals: 1}, {Figure: "server CPU ms/TTL", Decimals: 1},
}

// keepAlive holds many locks by one client for a TTL and counts what that
// takes. Locks that nobody renews are renewed here, as their users would.
func keepAlive(ctx context.Context, c Contender, e Env) Result {
	r := newResult(c, e)
	if err := keepLeases(ctx, c, e, &r); err != nil {
		r.Failed = err.Error()
	}
	return r
}

func keepLeases(ctx context.Context, c Contender, e Env, r *Result) error {
	clients, end, err := begin(ctx, c, 1, aliveTTL)
	if err != nil {
		return err
	}
	defer end()
	const many = 64 // goroutines that acquire, renew and release
	name, client := newName(), clients[0]
	leases := make([]Held, e.Leases)
	stop := make(chan struct{})
	renewed := make(chan error, 1)
	err = together(e.Leases, many, func(i int) (err error) {
		leases[i], err = client.Lock(fmt.Sprintf("%s/%d", name, i))(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if _, ok := leases[0].(renewable); ok {
		go func() { renewed <- renew(ctx, leases, many, stop) }()
	} else {
		renewed <- nil
	}
	exchanges := func() uint64 { return 0 }
	counter, counts := client.(counting)
	if counts {
		exchanges = counter.Exchanges
	}
	// Whatever is done once for each lease is over by then, and it is between two heartbeats.
	time.Sleep(aliveTTL + aliveTTL/6)
	began, err := e.cost(ctx)
	if err != nil {
		return err
	}
	before := exchanges()
	time.Sleep(time.Until(began.at.Add(aliveTTL)))
	_, cpu, server, err := began.since(ctx)
	if err != nil {
		return err
	}
	after := exchanges()
	close(stop)
	if err := <-renewed; err != nil {
		r.wrong("renew: %v", err)
	}
	err = together(e.Leases, many, func(i int) error { return leases[i].Release() })
	if err != nil {
		r.wrong("release: %v", err) // it was lost meanwhile
	}
	const intervals = 3 // of a TTL
	switch {
	case counts:
		r.set("exchanges/interval", float64(after-before)/intervals)
	case !math.IsNaN(server.Scripts):
		r.set("exchanges/interval", server.Scripts/intervals)
	default:
		r.set("exchanges/interval", server.Commands/intervals)
	}
	r.set("commands/TTL", server.Commands)
	r.set("scripts/TTL", server.Scripts)
	r.set("transactions/TTL", server.Transactions)
	r.set("KiB to server/TTL", server.Received/1024)
	r.set("KiB from server/TTL", server.Sent/1024)
	r.set("client CPU ms/TTL", micros(cpu)/1000)
	if server.CPU > 0 {
		r.set("server CPU ms/TTL", micros(server.CPU)/1000)
	}
	return nil
}

// renew renews all leases every third of the TTL.
func renew(ctx context.Context, leases []Held, many int, stop <-chan struct{}) error {
	tick := time.NewTicker(aliveTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		err := together(len(leases), many, func(i int) error { return leases[i].(renewable).Renew(ctx) })
		if err != nil {
			return err
		}
	}
}
