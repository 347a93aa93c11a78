package mysqllock

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
)

// OneNode says that all clients of these tables use the same node of a Galera cluster,
// and another one only after that has failed. Without it a cluster is refused.
//
// Nodes measure time by clocks of their own, do not share the table that a restart
// empties, and may grant before they know of the last renewals: so two could hold one
// lock if clients used several at once.
func OneNode() Option { return func(s *store) { s.oneNode = true } }

// refuseCluster refuses the nodes of a cluster, unless there is said to be only one for
// all clients.
func (s *store) refuseCluster(ctx context.Context) error {
	if s.oneNode {
		return nil
	}
	galera, err := s.isGalera(ctx)
	if galera {
		err = driver.Permanent(errors.New("mysql: the server is a node of a Galera cluster: two could hold one lock if clients used several nodes. " +
			"Send all of them to the same node, and say so by galera=one-node in every URL (or mysqllock.OneNode)"))
	}
	return err
}

func (s *store) isGalera(ctx context.Context) (on bool, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT @@wsrep_on + 0").Scan(&on)
	if database.Number(err, erUnknownVariable) { // it is none of MariaDB
		return false, nil
	}
	if err != nil {
		return false, s.Explain(err)
	}
	return on, nil
}
