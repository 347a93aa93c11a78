// Package mariadb contributes what competes on MariaDB.
package mariadb

import (
	"context"
	"strings"
	"time"

	_ "github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/row"
	"github.com/interlock-go/interlock/bench/workload"
)

const (
	bareRow     = "bare row"
	bareMore    = "bare row, 16 connections"
	polledRow   = "row, polled"
	getLockName = "GET_LOCK"
)

// Backend is a server that is started here, or the one at url.
func Backend(url string, connections int) workload.Backend {
	return workload.Backend{
		Name: "mariadb",
		Start: func(ctx context.Context) (workload.Server, error) {
			s, err := start(ctx, url, connections)
			if err != nil {
				return nil, err // not a server that is nil
			}
			return s, nil
		},
		Contenders: contenders,
		Beside: map[string]string{
			"W1": bareRow, "W2": bareRow, "W3": getLockName, "W4": getLockName,
			"W4-hold": getLockName, "W5": getLockName, "W8": bareRow, "W9": polledRow,
		},
		Goals: goals,
	}
}

func contenders(url string) []workload.Contender {
	peers := []workload.Contender{
		{Name: getLockName, Settings: "GET_LOCK, RELEASE_LOCK; a connection for everybody; no lease, no token",
			Takes: strings.Fields("W1 W2 W3 W4 W4-hold W5 W9"), Open: openGetLock(url)},
		{Name: bareRow, Settings: "inserts a row, or takes it over if it has expired; deletes it; database/sql with its defaults; never waits",
			Takes: strings.Fields("W1 W2 W8"), Open: row.Open(openRows(url, 0), 0)},
		{Name: bareMore, Settings: "the same; a pool of 16 connections",
			Takes: strings.Fields("W2 W8"), Open: row.Open(openRows(url, 16), 0)},
		{Name: polledRow, Settings: "the same; asks again every second",
			Takes: strings.Fields("W4 W4-hold W5 W9"), Least: 3 * time.Second, Open: row.Open(openRows(url, 4), time.Second)},
	}
	return append(peers, ours.All(url)...)
}

const perPair, perHandOff = "pairs/s", "hand-offs/s"

var goals = []workload.Goal{
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{bareRow}, AtLeast: 1.5},
	{Workload: "W3", Who: ours.Default, Figure: perHandOff, Of: []string{getLockName}, AtLeast: 10},
	{Workload: "W3", Who: ours.Default, Figure: "Jain", AtLeast: 0.99},
	{Workload: "W8", Who: ours.Default, Figure: "exchanges/interval", AtMost: 100},
	{Workload: "W9", Who: ours.Default, Figure: "from the grant, TTLs", AtMost: 1.1},
}
