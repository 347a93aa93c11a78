package pglock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// Promise: after a failover to a standby, whose unlogged tables are empty, nobody is
// granted anything before every lease of before has run out, tokens go on above those
// of before, and what the standby has received of fixed leases, values and floors is as
// it was.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	standby := pgtest.StartStandby(t, s)
	failover(t, s, standby, true)
}

// Promise: a lock whose release the standby has not received when it takes over is free again
// soon, though the client that has released it lives; what that holds stays its own.
func TestAFailoverThatHasLostAReleaseBlocksNobody(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	standby := pgtest.StartStandby(t, s)
	tabletest.LosesReleases(t, both(s, standby)+"&durability=logged", func() { standby.CatchUp(s); standby.StopReceiving() }, func() {
		s.Kill()
		standby.Promote()
	})
}

// Promise: the same as after a failover to a standby when a backup is restored that is older than leases are.
func TestOlderBackup(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	noError(t, clients(t, 1, s.URL(), interlock.TTL(time.Second))[0].Close()) // the tables are there
	backup := pgtest.StartStandby(t, s)
	backup.Kill()
	failover(t, s, backup, false)
}

// both is the URL of a primary and its standby.
func both(s, standby *pgtest.Server) string {
	return strings.Replace(s.URL(), s.Addr, s.Addr+","+standby.Addr, 1)
}

func failover(t *testing.T, s, to *pgtest.Server, follows bool) {
	const ttl = time.Second
	url := both(s, to)
	all := clients(t, 2, url, interlock.TTL(ttl))
	var g grants
	load := startLoad(t, all, 2, g.note)
	load.goesOn()
	keep := newKept(t, all[0], all[1])
	if follows {
		keep.change()
		to.CatchUp(s)
	}
	began := time.Now()
	s.Kill()
	if !follows {
		to.Restart()
	}
	to.Promote()
	g.checkGrace(t, to, began, ttl)
	if follows {
		keep.check()
	}
	load.goesOn()
	load.end()
}
