// Package redis contributes what competes on Redis.
package redis

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	_ "github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
)

const (
	bareDefault    = "bare"
	bareSame       = "bare, our options"
	barePipelining = "bare, pipelining"
	publishRetry   = "publish and retry"
	redsyncName    = "redsync"
	redislockSlow  = "redislock, 100 ms"
	redislockFast  = "redislock, 1 ms"
	rueidislockAll = "rueidislock"
)

// Backend is a server that is started here, or the one at url.
func Backend(url string) workload.Backend {
	return workload.Backend{
		Name:       "redis",
		Start:      func(ctx context.Context) (workload.Server, error) { return start(ctx, url) },
		Contenders: contenders,
		Beside: map[string]string{
			"W1": bareSame, "W2": bareSame, "W3": workload.BestPeer, "W4": workload.BestPeer,
			"W4-hold": workload.BestPeer, "W5": redsyncName, "W8": bareSame,
		},
		Goals: goals,
	}
}

func contenders(url string) []workload.Contender {
	const contended = "W3 W4 W4-hold W5 W9"
	peers := []workload.Contender{
		{Name: bareDefault, Settings: "SET NX PX, script; rueidis with its defaults", Takes: strings.Fields("W1 W2"),
			Open: openBare(url, nil)},
		{Name: bareSame, Settings: "the same; the options that our client has", Takes: strings.Fields("W1 W2 W8"),
			Open: openBare(url, ourOptions)},
		{Name: barePipelining, Settings: "the same; one connection, in pipelining mode from the start", Takes: strings.Fields("W1 W2"),
			Open: pipelining(openBare(url, oneConnection))},
		{Name: publishRetry, Settings: "SET NX PX; who fails waits for PUBLISH, then all retry", Takes: strings.Fields("W1 " + contended),
			Open: openPublisher(url)},
		{Name: redsyncName, Settings: "go-redis pool; default delays of 50 to 250 ms; never gives up (default: after 32 tries)", Takes: strings.Fields("W1 W2 " + contended),
			Open: openRedsync(url)},
		{Name: redislockSlow, Settings: "linear back-off of 100 ms, never gives up", Takes: strings.Fields("W1 W2 W8 " + contended),
			Open: openRedislock(url, 100*time.Millisecond)},
		{Name: redislockFast, Settings: "polls every 1 ms, never gives up", Takes: strings.Fields(contended),
			Open: openRedislock(url, time.Millisecond)},
		{Name: rueidislockAll, Settings: "its defaults: 2 of 3 keys, woken by invalidation messages", Takes: strings.Fields("W1 W2 W8 " + contended),
			Open: openRueidislock(url)},
	}
	return append(peers, ours.All(url)...)
}

// ourOptions are those with which our backend opens its client.
func ourOptions(opt *rueidis.ClientOption) {
	oneConnection(opt)
	opt.DisableCache, opt.DisableRetry = true, true
	opt.ReadBufferEachConn, opt.WriteBufferEachConn = 64<<10, 64<<10
}

func oneConnection(opt *rueidis.ClientOption) { opt.PipelineMultiplex = -1 }

const perPair, perHandOff, seconds = "pairs/s", "hand-offs/s", "drain s"

var goals = []workload.Goal{
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{bareSame}, AtLeast: 0.95},
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{redsyncName}, AtLeast: 1},
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{redislockSlow}, AtLeast: 1},
	{Workload: "W1", Who: ours.Default, Figure: perPair, Of: []string{rueidislockAll}, AtLeast: 1.25},
	{Workload: "W2", Who: ours.Default, Figure: perPair, Of: []string{bareSame}, AtLeast: 0.9},
	{Workload: "W2", Who: ours.Default, Figure: perPair, Of: []string{redsyncName}, AtLeast: 2.5},
	{Workload: "W3", Who: ours.Default, Figure: perHandOff, Of: []string{workload.BestPeer}, AtLeast: 40},
	{Workload: "W3", Who: ours.Default, Figure: "Jain", AtLeast: 0.99},
	{Workload: "W4", Who: ours.Default, Figure: perHandOff, Of: []string{workload.BestPeer}, AtLeast: 2.8},
	{Workload: "W4", Who: ours.Default, Figure: "p99/p50", AtMost: 2.5},
	{Workload: "W4", Who: ours.Default, Figure: "fewest/most", AtLeast: 0.98},
	{Workload: "W5", Who: ours.Default, Figure: seconds, Of: []string{redsyncName}, AtLeast: 8},
	{Workload: "W5", Who: ours.Default, Figure: seconds, Of: []string{publishRetry}, AtLeast: 80},
	{Workload: "W5", Who: ours.Default, Figure: seconds, Of: []string{rueidislockAll}, AtLeast: 80},
	{Workload: "W5", Who: ours.Strict, Figure: "scripts/hand-off", AtMost: 1.1},
	{Workload: "W5", Who: ours.Strict, Figure: "bytes sent/hand-off", AtMost: 100},
	{Workload: "W8", Who: ours.Default, Figure: "exchanges/interval", AtMost: 100},
	{Workload: "W9", Who: ours.Default, Figure: "from the grant, TTLs", AtMost: 1.1},
}
