package zookeeper

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"path"
	"time"

	"github.com/go-zookeeper/zk"
)

// connect makes a client of go-zookeeper with its defaults, which has a session.
func connect(ctx context.Context, url string, ttl time.Duration) (*zk.Conn, error) {
	u, err := neturl.Parse(url)
	if err != nil {
		return nil, err
	}
	conn, events, err := zk.Connect([]string{u.Host}, ttl, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
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

// everybody may do everything.
var everybody = zk.WorldACL(zk.PermAll)

// makeAll makes a node and those that it is below.
func makeAll(conn *zk.Conn, node string) error {
	_, err := conn.Create(node, nil, 0, everybody)
	if errors.Is(err, zk.ErrNoNode) {
		if err := makeAll(conn, path.Dir(node)); err != nil {
			return err
		}
		_, err = conn.Create(node, nil, 0, everybody)
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
