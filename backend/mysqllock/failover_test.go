package mysqllock_test

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// Promise: a replica that takes over without the last grants of its primary gives out none of
// their tokens again, also after raises far above the clock, of which a second one lowers
// nothing.
func TestAFailoverRepeatsNoToken(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("the commands for a replica are those of MariaDB")
	}
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	d, before := session(t, primary.URL())
	tabletest.Failover{Driver: d, Before: before,
		Detach:  func() { replica.CatchUp(primary); replica.Detach() },
		Promote: func() *driver.Opened { primary.Kill(); replica.Promote(); _, s := session(t, replica.URL()); return s },
	}.RepeatsNoToken(t)
}

// both is the URL of a primary and its replica.
func both(primary, replica *mysqltest.Server) string {
	return strings.Replace(primary.URL(), primary.Addr, primary.Addr+","+replica.Addr, 1)
}

// Promise: a lock whose release the replica has not received when it takes over is free again
// soon, though the client that has released it lives; what that holds stays its own.
func TestAFailoverThatHasLostAReleaseBlocksNobody(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("the commands for a replica are those of MariaDB")
	}
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	tabletest.LosesReleases(t, both(primary, replica), func() { replica.CatchUp(primary); replica.Detach() }, func() {
		primary.Kill()
		replica.Promote()
	})
}
