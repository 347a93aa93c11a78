// Package postgres contributes what competes on PostgreSQL.
package postgres

import (
	"context"
	"fmt"
	neturl "net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/row"
	"github.com/interlock-go/interlock/bench/workload"
)

const (
	bareRow      = "bare row"
	bareMore     = "bare row, 16 connections"
	polledRow    = "row, polled"
	advisoryName = "advisory"
	ownPool      = "interlock, pools"
	ownListener  = "interlock, listeners"
	logged       = "interlock, logged"
)

// Backend is a server that is started here, or the one at url.
func Backend(url string, connections int) workload.Backend {
	return workload.Backend{
		Name: "postgres",
		Start: func(ctx context.Context) (workload.Server, error) {
			s, err := start(ctx, url, connections)
			if err != nil {
				return nil, err // not a server that is nil
			}
			return s, nil
		},
		Contenders: contenders,
		Beside: map[string]string{
			"W1": bareRow, "W2": bareRow, "W3": advisoryName, "W4": advisoryName,
			"W4-hold": advisoryName, "W5": advisoryName, "W8": bareRow, "W9": polledRow,
		},
		Goals: goals,
		// All of them have waited longer than deadlock_timeout by then.
		Settle: 1500 * time.Millisecond,
	}
}

func contenders(url string) []workload.Contender {
	peers := []workload.Contender{
		{Name: advisoryName, Settings: "pg_advisory_lock, pg_advisory_unlock; a connection for everybody; no lease, no token",
			Takes: strings.Fields("W1 W2 W3 W4 W4-hold W5 W9"), Open: openAdvisory(url)},
		{Name: bareRow, Settings: "inserts a row, or takes it over if it has expired; deletes it; pgxpool with its defaults; never waits",
			Takes: strings.Fields("W1 W2 W8"), Open: row.Open(openRows(url, 0), 0)},
		{Name: bareMore, Settings: "the same; a pool of 16 connections",
			Takes: strings.Fields("W2 W8"), Open: row.Open(openRows(url, 16), 0)},
		{Name: polledRow, Settings: "the same; asks again every second, as libraries on PostgreSQL do",
			Takes: strings.Fields("W4 W4-hold W5 W9"), Least: 3 * time.Second, Open: row.Open(openRows(url, 0), time.Second)},
	}
	all := append(peers, ours.AllAt(processes(url))...)
	for i := range all {
		if all[i].Ours {
			all[i].Takes = slices.DeleteFunc(all[i].Takes, func(w string) bool { return w == "W5" })
		}
	}
	here := func() string { return url }
	all = append(all,
		ours.Library(here, ours.Default, "Acquire, Release; one pool and one listener for the process, as clients with one URL have", "W5"),
		ours.Library(here, ours.Strict, "no hand-over inside the process", "W5", interlock.StrictOrder()),
		ours.Library(pools(url), ownPool, "a pool for each client, and one listener for the process", "W5"),
		ours.Library(processes(url), ownListener, "as if each were a process; its connections are named apart", "W5"),
		ours.Library(func() string { return with(url, "durability=logged&schema=logged") }, logged, "grants are written to the log: durability=logged", "W1 W2 W4 W5"),
	)
	for i := range all {
		all[i].Rehearsed = all[i].Ours
	}
	return all
}

// processes gives each client a URL of its own, so that it shares nothing with
// others of this process.
func processes(url string) func() string {
	var n atomic.Int64
	return func() string { return with(url, fmt.Sprintf("application_name=bench-%d", n.Add(1))) }
}

// pools gives each client a pool of its own, and has all listen on one connection.
func pools(url string) func() string {
	each, direct := processes(url), "direct="+neturl.QueryEscape(url)
	return func() string { return with(each(), direct) }
}

func with(url, options string) string {
	if strings.Contains(url, "?") {
		return url + "&" + options
	}
	return url + "?" + options
}

const perPair, perHandOff, seconds = "pairs/s", "hand-offs/s", "drain s"

var goals = []workload.Goal{
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{bareRow}, AtLeast: 1.8},
	{Workload: "W2", Who: ours.Default, Figure: perPair, Of: []string{bareRow}, AtLeast: 1.8},
	{Workload: "W3", Who: ours.Default, Figure: perHandOff, Of: []string{advisoryName}, AtLeast: 10},
	{Workload: "W3", Who: ours.Default, Figure: "Jain", AtLeast: 0.99},
	{Workload: "W4", Who: ours.Default, Figure: perHandOff, Of: []string{polledRow}, AtLeast: 300},
	{Workload: "W4", Who: ours.Default, Figure: perHandOff, Of: []string{advisoryName}, AtLeast: 0.2},
	{Workload: "W5", Who: ours.Default, Figure: seconds, Of: []string{advisoryName}, AtLeast: 20},
	{Workload: "W8", Who: ours.Default, Figure: "exchanges/interval", AtMost: 100},
	{Workload: "W9", Who: ours.Default, Figure: "from the grant, TTLs", AtMost: 1.1},
}
