package zookeeper

import (
	"context"
	"fmt"
	neturl "net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/bench/workload"
)

// goZookeeper locks as go-zookeeper does itself.
func goZookeeper(url string) workload.Contender {
	return workload.Contender{Name: "go-zookeeper", Settings: "its own Lock, which lists all nodes at each wake-up",
		Open: func(ctx context.Context, o workload.Options) (workload.Client, error) {
			conn, err := connect(ctx, url, o.TTL)
			if err != nil {
				return workload.Client{}, err
			}
			end := func() error {
				conn.Close()
				return nil
			}
			return workload.Client{Close: end, Lock: func(name string) workload.Lock {
				// Lock knows no context: what ends the wait is the end of the connection.
				return func(ctx context.Context) (h workload.Held, err error) {
					stop := context.AfterFunc(ctx, conn.Close)
					defer stop()
					l := zk.NewLock(conn, "/"+name, zk.WorldACL(zk.PermAll))
					return workload.Held{Release: l.Unlock}, l.Lock()
				}
			}}, nil
		}}
}

// connect makes a client of go-zookeeper with its defaults, which has a session.
func connect(ctx context.Context, url string, ttl time.Duration) (*zk.Conn, error) {
	u, err := neturl.Parse(url)
	if err != nil {
		return nil, err
	}
	conn, events, err := zk.Connect(strings.Split(u.Host, ","), ttl, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil // it drops the events that nobody reads
			}
		case <-ctx.Done():
			conn.Close()
			return nil, fmt.Errorf("%s: no session: %w", u.Host, context.Cause(ctx))
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
