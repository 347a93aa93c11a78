package primitives

import (
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/testserver"
)

// outages are what a network does for a while.
var outages = []struct {
	name       string
	begin, end func(*testserver.Proxy)
}{
	{"bytes are dropped, and the connections then end", (*testserver.Proxy).Hang, func(p *testserver.Proxy) { p.Cut(); p.Resume() }},
	{"answers are dropped, and the connections then end", (*testserver.Proxy).Late, func(p *testserver.Proxy) { p.Cut(); p.Resume() }},
	{"connections are refused", func(p *testserver.Proxy) { p.Refuse(true); p.Cut() }, func(p *testserver.Proxy) { p.Refuse(false) }},
}

var _ = rules.Add(rule{Name: "ShortOutage", Exact: true, Says: []string{
	"An outage of two fifths of the TTL loses nothing, however it looks to the client.",
}}, func(t *trial) {
	if t.Simulated || t.world.Via == nil {
		t.Skip("there is no network between the clients and the backend")
	}
	n := &suite.Network{TB: t}
	d, err := t.world.Via(t.Ctx, n.At)
	t.OK(err, "open a driver")
	a := t.over(d, 4*t.TTL)
	ttl := a.TTL()
	leases := []*interlock.Lease{t.acquire(a.Mutex("m")), t.acquire(a.RWMutex("rw").Reader())}
	var slowest pulse
	defer slowest.feel(t, t.client())()
	t.Allow(20 * ttl)
	for i, o := range outages {
		time.Sleep(ttl + ttl/3*time.Duration(i)/time.Duration(len(outages)))
		n.Each(o.begin)
		time.Sleep(ttl * 2 / 5)
		n.Each(o.end)
		time.Sleep(ttl * 3 / 5)
		for _, l := range leases {
			if err := l.Err(); err == nil {
				continue
			} else if felt := slowest.load(); felt > ttl/20 {
				t.Slow("an exchange took %v, and a lease was lost: %v", felt, err)
			} else {
				t.Fatalf("%s for two fifths of the TTL: %v", o.name, err)
			}
		}
	}
	t.release(leases...)
})
