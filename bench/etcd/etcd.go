// Package etcd contributes what competes on etcd.
package etcd

import (
	"context"
	"slices"
	"strings"

	_ "github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
)

const (
	bareName        = "bare"
	concurrencyName = "concurrency"
)

// Backend is a server that is started here.
func Backend() workload.Backend {
	return workload.Backend{
		Name:       "etcd",
		Start:      func(context.Context) (workload.Server, error) { return start() },
		Contenders: contenders,
		Beside: map[string]string{
			"W1": concurrencyName, "W2": concurrencyName, "W3": concurrencyName, "W4": concurrencyName, "W4-hold": concurrencyName, "W5": concurrencyName,
		},
		Goals: goals,
	}
}

func contenders(url string) []workload.Contender {
	all := append([]workload.Contender{
		{Name: bareName, Settings: "puts and deletes a key with a lease; never waits", Takes: strings.Fields("W1 W2"), Open: openBare(url)},
		{Name: concurrencyName, Settings: "the Mutex of etcd's own client, with a session for each that holds or waits at the same time",
			Takes: strings.Fields("W1 W2 W3 W4 W4-hold W5"), Open: openConcurrency(url)},
	}, ours.All(url)...)
	for i, c := range all {
		// A lease of etcd lasts at least two seconds, and 10,000 leases are keys of one.
		all[i].Takes = slices.DeleteFunc(c.Takes, func(name string) bool { return name == "W8" || name == "W9" })
	}
	return all
}

const perPair, perHandOff, seconds = "pairs/s", "hand-offs/s", "drain s"

var peer = []string{concurrencyName}

var goals = []workload.Goal{
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: peer, AtLeast: 1},
	{Workload: "W2", Who: ours.Default, Figure: perPair, Of: peer, AtLeast: 1},
	{Workload: "W3", Who: ours.Default, Figure: perHandOff, Of: peer, AtLeast: 10},
	{Workload: "W4", Who: ours.Default, Figure: perHandOff, Of: peer, AtLeast: 6},
	{Workload: "W5", Who: ours.Default, Figure: seconds, Of: peer, AtLeast: 1},
}
