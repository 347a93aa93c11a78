// Package zookeeper contributes what competes on ZooKeeper.
package zookeeper

import (
	"context"
	"strings"

	_ "github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
)

const (
	bareName    = "bare"
	goZookeeper = "go-zookeeper"
	curatorName = "Curator"
)

// Backend is a server that is started here.
func Backend() workload.Backend {
	jvm := &curator{}
	return workload.Backend{
		Name: "zookeeper",
		Start: func(ctx context.Context) (workload.Server, error) {
			s, err := start(ctx)
			if err != nil {
				return nil, err
			}
			jvm.addr = s.Addr
			return closing{s, jvm}, nil
		},
		Contenders: func(url string) []workload.Contender { return contenders(url, jvm) },
		Beside: map[string]string{
			"W1": bareName, "W2": bareName, "W3": workload.BestPeer, "W4": workload.BestPeer,
			"W4-hold": workload.BestPeer, "W5": goZookeeper, "W8": goZookeeper, "W9": goZookeeper,
		},
		Goals: goals,
	}
}

// closing ends the JVM of the contender together with the server.
type closing struct {
	*server
	jvm *curator
}

func (c closing) Close() error {
	c.jvm.close()
	return c.server.Close()
}

func contenders(url string, jvm *curator) []workload.Contender {
	const common = "W1 W2 W3 W4 W4-hold W5 W9"
	peers := []workload.Contender{
		{Name: bareName, Settings: "creates and deletes an ephemeral sequential node; never waits", Takes: strings.Fields("W1 W2 W8"),
			Open: openBare(url)},
		{Name: goZookeeper, Settings: "its own Lock, which lists all nodes at each wake-up", Takes: strings.Fields(common + " W8"),
			Open: openRecipe(url)},
		{Name: curatorName, Settings: "InterProcessMutex in a warm JVM, a mutex for each thread; CPU is the JVM's", Takes: strings.Fields(common),
			Open: openCurator(url), Elsewhere: jvm},
	}
	return append(peers, ours.All(url)...)
}

const perPair, perHandOff, seconds, bytesSent = "pairs/s", "hand-offs/s", "drain s", "bytes sent/hand-off"

var both = []string{goZookeeper, curatorName}

var goals = []workload.Goal{
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{goZookeeper}, AtLeast: 1},
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{curatorName}, AtLeast: 1},
	{Workload: "W2", Who: ours.Default, Figure: perPair, Of: []string{goZookeeper}, AtLeast: 1},
	{Workload: "W3", Who: ours.Default, Figure: perHandOff, Of: both, AtLeast: 12},
	{Workload: "W4", Who: ours.Default, Figure: perHandOff, Of: both, AtLeast: 1.2},
	{Workload: "W5", Who: ours.Default, Figure: seconds, Of: []string{goZookeeper}, AtLeast: 1.3},
	{Workload: "W5", Who: ours.Strict, Figure: bytesSent, Of: both, AtLeast: 50},
	// However many wait, it is a fiftieth of what a peer's holder is sent when 1,000 do.
	{Workload: "W5", Who: ours.Strict, Figure: bytesSent, AtMost: 552},
	{Workload: "W8", Who: ours.Default, Figure: "exchanges/interval", AtMost: 100},
	{Workload: "W9", Who: ours.Default, Figure: "from the grant, TTLs", AtMost: 1.1},
}
