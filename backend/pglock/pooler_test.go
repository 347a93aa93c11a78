package pglock_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// longBehindAPooler lists the rules that take long, most of them since they wait for a
// TTL: a pooler makes no difference to that.
var longBehindAPooler = []string{
	"Cancellation", "CancelledAwaits", "ConcurrentPermits", "ConcurrentReadersAndWriters", "CrowdOfReaders", "CountingProcesses",
	"Proof", "Inherited", "ExpiryOfAHeldTicket", "ExpiryOfAWaitingTicket", "ExpiryOfManyInARow",
	"RenewExtends", "RenewOfAWaitingTicket", "RenewOfAStray", "RenewOnlyWhatIsKnown",
	"Keep", "HoldBeginsWithTheGrant", "HoldOutlivesItsSession",
	"KilledProcess", "StoppedProcess", "ProcessesThatAreKilled", "ProcessesThatDie",
}

// Promise: it works behind a pooler that pools transactions, with news by a direct
// connection. All rules are run, in each shape, if PGLOCK_POOLER is all.
func TestConformanceBehindAPooler(t *testing.T) {
	left := map[string]string{}
	for _, rule := range []string{"Stranger", "NoRights", "Member", "OtherUser", "NeighbourInTheProcess", "Impostor", "SilentHost", "Deaf", "Mute"} {
		left[rule] = "TestConformance, without a pooler"
	}
	shape := ""
	if os.Getenv("PGLOCK_POOLER") != "all" {
		shape = "mutex"
		for _, rule := range longBehindAPooler {
			left[rule] = "it takes long: PGLOCK_POOLER=all"
		}
	}
	s := pgtest.Start(t, pgtest.Durable()) // else it would not pass its examination
	p := pgtest.StartPooler(t, s)
	all := schemas{server: s}
	drivertest.Run(t, drivertest.Backend{
		TTL:         time.Second,
		Small:       shape != "",
		Shape:       shape,
		Unsupported: left,
		World: func(t testing.TB) drivertest.World {
			schema := all.take(t)
			calls, news := pgtest.NewProxy(t, p.Addr), pgtest.NewProxy(t, s.Addr)
			direct := strings.Replace(s.URL(), s.Addr, news.Addr, 1)
			via := strings.Replace(p.URL(), p.Addr, calls.Addr, 1)
			return drivertest.World{
				Open: func(ctx context.Context) (driver.Driver, error) {
					return openPool(ctx, via, pglock.In(pglock.Schema{Name: schema}), pglock.Direct(direct))
				},
				URL: p.URL() + "&schema=" + schema + "&direct=" + url.QueryEscape(s.URL()),
				Hang: func() func() {
					calls.Hang()
					news.Hang()
					return func() { calls.Resume(); news.Resume() }
				},
				Late: func() func() {
					calls.Late()
					news.Late()
					return func() { calls.Resume(); news.Resume() }
				},
				LockQueue: lockQueue(t, s, schema),
				LoseMessages: func() func() {
					news.DropNotifications(true)
					return func() { news.DropNotifications(false) }
				},
				Unreachable: unreachable,
			}
		},
	})
}

// Promise: a pooler without a direct URL is found, and waiters are served all the
// same.
func TestPoolerWithoutADirectURL(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	p := pgtest.StartPooler(t, s)
	d := opened(t, p.URL())
	doctortest.Examine(t, t.Context(), d).Has("news", driver.Warn, "direct=")
	handOver(t, d)

	direct := opened(t, p.URL()+"&direct="+strings.ReplaceAll(s.URL(), "&", "%26"))
	doctortest.Examine(t, t.Context(), direct).Has("news", driver.OK)
	handOver(t, direct)
}

// handOver hands a lock from one session to the next, and back.
func handOver(t *testing.T, d driver.Driver) {
	t.Helper()
	a, b := session(t, d), session(t, d)
	for range 3 {
		held := acquire(t, a, "q", 1)
		waits := join(t, b, request("q", 1))
		if waits.Held {
			t.Fatal("two hold")
		}
		got := make(chan driver.Ticket, 1)
		go func() {
			k, err := b.Await(t.Context(), waits)
			if err != nil {
				t.Errorf("Await: %v", err)
			}
			got <- k
		}()
		noError(t, a.Leave(t.Context(), held, true))
		if k := <-got; !k.Held || k.Token <= held.Token {
			t.Fatalf("after %+v: %+v", held, k)
		}
		a, b = b, a
		noError(t, a.Leave(t.Context(), waits, true))
	}
}

// Promise: a PgBouncer that refuses for a while, since its server was away, is told from a server that is away, with
// the setting that helps.
func TestAPoolerThatRefusesAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	p := pgtest.StartPooler(t, s, "server_login_retry = 300") // 15 by default
	open := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		d, err := openURL(ctx, p.URL())
		if err == nil {
			d.Close()
		}
		return err
	}
	s.Kill()
	if open() == nil {
		t.Fatal("it is opened without a server")
	}
	s.Restart()
	if err := open(); err == nil || driver.IsPermanent(err) || !strings.Contains(err.Error(), "set it to 1") {
		t.Errorf("the pooler refuses with %v", err)
	}
}
