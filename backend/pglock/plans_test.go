package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// crowd puts tickets into a queue, fast.
func crowd(t *testing.T, s *driver.Opened, n int, r func() driver.Request) []driver.Ticket {
	t.Helper()
	all := make([]driver.Ticket, n)
	const at = 8
	errs := make(chan error, at)
	for w := range at {
		go func() {
			for i := w; i < n; i += at {
				k, err := s.Join(context.Background(), r())
				if err != nil {
					errs <- err
					return
				}
				all[i] = k
			}
			errs <- nil
		}()
	}
	for range at {
		noError(t, <-errs)
	}
	return all
}

// Promise: what a call costs does not grow with the length of the queue: no table is
// read from one end to the other, by connections that have made their plans while the
// tables were empty.
func TestNoTableIsScanned(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Config("autovacuum", "off"))
	if d, err := openURL(t.Context(), s.URL()); err != nil {
		t.Fatal(err)
	} else if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	before := scans(t, s) // for making the tables
	d := opened(t, s.URL()+"&pool_max_conns=2")
	open := func() *driver.Opened {
		s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour, Owner: "test"}))(t)
		return s
	}
	b := open()
	steps := func() {
		var several sync.WaitGroup // of different names, which go together
		for i := range 8 {
			several.Go(func() {
				if k, err := b.Join(t.Context(), request(fmt.Sprint("several", i), 1)); err != nil || !k.Held {
					t.Errorf("%+v, %v", k, err)
				} else if err := b.Leave(t.Context(), k, true); err != nil {
					t.Error(err)
				}
			})
		}
		several.Wait()
		a := open() // none gets so old that it tidies up, which reads tables that are small
		for _, queue := range []string{"line", "crowd", "other"} {
			capacity := int64(1)
			if queue == "crowd" {
				capacity = 300
			}
			k := join(t, a, request(queue, capacity))
			errtest.Must(a.Renew(t.Context(), []driver.Ticket{k}))(t)
			noError(t, a.Leave(t.Context(), k, true))
			k = join(t, a, request(queue, capacity))
			noError(t, d.Ask(t.Context(), queue, k.ID, driver.Force))
			busy := request(queue, capacity)
			busy.NoWait = true
			if k, err := a.Join(t.Context(), busy); err == nil {
				noError(t, a.Leave(t.Context(), k, true))
			}
		}
	}
	acquire(t, b, "one", 2)
	acquire(t, b, "one", 2)
	s.SQL("VACUUM ANALYZE") // now the server knows that these tables are small
	for range 10 {          // plans are made, some of them anew after a few calls
		steps()
	}
	line := crowd(t, b, 500, func() driver.Request { return request("line", 1) })
	crowd(t, b, 500, func() driver.Request { return request("crowd", 300) })
	held := line[slices.IndexFunc(line, func(k driver.Ticket) bool { return k.Held })]
	noError(t, b.Leave(t.Context(), held, true))
	steps()
	noError(t, d.Close())
	if after := scans(t, s); after != before {
		t.Errorf("tables were read as a whole: before, and how often,\n%s\nand now\n%s", before, after)
	}
}

// Promise: a ticket that meets no other takes no function, which costs the server half as much again; and its tokens,
// and what is said of the holder before it, are those of the functions.
func TestALoneTicketTakesNoFunction(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Config("track_functions", "pl"))
	d := opened(t, s.URL())
	b := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour, Owner: "test"}))(t)
	last, clean := uint64(0), true
	for i := range 20 {
		r := request("lone", 1)
		r.ReportDeath = true
		k := join(t, b, r)
		if !k.Held || k.Token <= last || k.Inherited == clean {
			t.Errorf("after a token of %d, and clean %t: %+v", last, clean, k)
		}
		last, clean = k.Token, i%3 > 0
		noError(t, b.Leave(t.Context(), k, clean))
		if err := b.Leave(t.Context(), k, clean); !errors.Is(err, driver.ErrGone) {
			t.Errorf("a second Leave: %v", err)
		}
	}
	noError(t, d.Close())
	scans(t, s)
	if calls := s.SQL("SELECT calls FROM pg_stat_user_functions WHERE funcname = 'join'"); calls != "1" {
		t.Errorf("join was called %s times", calls)
	}
}

// scans is how often each table was read from one end to the other. Connections tell
// when they end.
func scans(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	noError(t, pgtest.Until(func() (bool, error) { return len(s.Backends("application_name = 'interlock'")) == 0, nil }))
	return s.SQL("SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname NOT IN ('meta', 'sentinel') ORDER BY 1")
}

// Promise: one connection more than the pool's is there while a client holds or waits,
// and it listens; while none does there is none.
func TestConnectionForNewsWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL()+"&pool_max_conns=1")
	listening := func() int { return len(s.Backends(listen)) }
	a := session(t, d)
	if n := len(s.Backends("application_name = 'interlock'")); n != 1 || listening() != 0 {
		t.Errorf("nobody holds or waits: %d connections, %d listen", n, listening())
	}
	held := acquire(t, a, "q", 1)
	b := session(t, d)
	waits := join(t, b, request("q", 1))
	got := make(chan error, 1)
	go func() { _, err := b.Await(t.Context(), waits); got <- err }()
	noError(t, pgtest.Until(func() (bool, error) { return listening() == 1, nil }))
	if n := len(s.Backends("application_name = 'interlock'")); n != 2 {
		t.Errorf("somebody waits: %d connections", n)
	}
	noError(t, a.Leave(t.Context(), held, true))
	noError(t, <-got)
}

// Promise: nobody is sent news that is not his: of 20 clients that wait, each is
// notified of its own grant only.
func TestNewsGoToTheWinner(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	proxies := make([]*pgtest.Proxy, 20)
	sessions := make([]*driver.Opened, len(proxies))
	waits := make([]driver.Ticket, len(proxies))
	holder := session(t, opened(t, s.URL()))
	held := acquire(t, holder, "q", 1)
	got := make(chan int, len(proxies))
	for i := range proxies {
		proxies[i] = pgtest.NewProxy(t, s.Addr)
		d := opened(t, strings.Replace(s.URL(), s.Addr, proxies[i].Addr, 1)+"&pool_max_conns=1")
		sessions[i] = session(t, d)
		waits[i] = join(t, sessions[i], request("q", 1))
		go func() {
			_, err := sessions[i].Await(t.Context(), waits[i])
			if err != nil {
				t.Error(err)
			}
			got <- i
		}()
	}
	// The holder listens, too.
	noError(t, pgtest.Until(func() (bool, error) { return len(s.Backends(listen)) == len(proxies)+1, nil }))
	noError(t, holder.Leave(t.Context(), held, true))
	for want := range proxies {
		i := <-got
		if i != want {
			t.Fatalf("%d is served, not %d", i, want)
		}
		noError(t, sessions[i].Leave(t.Context(), waits[i], true))
	}
	busy.Until(t, "the news of all grants have arrived", func() bool {
		return !slices.ContainsFunc(proxies, func(p *pgtest.Proxy) bool { return p.Notifications() == 0 })
	})
	for i, p := range proxies {
		// Its grant, that another one waits behind it, and what it looks after as the
		// first in line.
		if n := p.Notifications(); n > 3 {
			t.Errorf("client %d was sent %d notifications", i, n)
		}
	}
}
