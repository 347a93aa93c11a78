package zookeeper

import (
	"context"
	neturl "net/url"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/zkpeer"
)

// curator is a JVM with locks of Curator. It runs from its first workload to the
// end of the server, since a JVM is slow at first.
type curator struct {
	peer *zkpeer.Peer
	stop func()
}

// At first it locks for warmFirst, then for warmAgain before each workload.
const warmFirst, warmAgain = 5 * time.Second, 300 * time.Millisecond

// compete has the JVM run a workload itself: a call from here for each lock would
// cost more than the lock.
func (c *curator) compete(url string) func(context.Context, workload.Shape, time.Duration, time.Duration) (workload.Figures, error) {
	return func(ctx context.Context, s workload.Shape, d, limit time.Duration) (f workload.Figures, err error) {
		warm := warmAgain
		if c.peer == nil {
			warm = warmFirst
			if err := c.start(url); err != nil {
				return f, err
			}
		}
		contest, err := c.peer.Contest(ctx, zkpeer.Shape(s), warm)
		if err != nil {
			return f, err
		}
		defer contest.Close(context.WithoutCancel(ctx))
		got, err := contest.Run(ctx, d, limit)
		return workload.Figures{Took: got.Took, Each: got.Each, Gaps: got.Gaps, Stuck: got.Stuck, Wrong: got.Wrong}, err
	}
}

func (c *curator) start(url string) error {
	u, err := neturl.Parse(url)
	if err != nil {
		return err
	}
	peer, stop, err := workload.Launch(func(dir string) (*zkpeer.Peer, error) {
		return zkpeer.RunCurator(dir, u.Host, zkpeer.Fast(), zkpeer.SessionTimeout(30*time.Second))
	}, (*zkpeer.Peer).Kill)
	if err == nil {
		c.peer, c.stop = peer, stop
	}
	return err
}

func (c *curator) end() {
	if c.peer != nil {
		c.stop()
		c.peer = nil
	}
}
