package zklock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
)

// link is a connection, over which a session of ZooKeeper lives and, after
// the end of that, another.
type link struct {
	conn *zk.Conn
	tap  *Tap
	own  bool // else the program's
}

// quiet keeps the client from writing to the program's log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// call runs a call of the client, which knows no context, until ctx ends. The
// call then goes on: what it did is told to late, if that isn't nil.
func call[T any](ctx context.Context, f func() (T, error), late func(T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	if ctx.Done() == nil {
		return f()
	}
	done := make(chan result, 1)
	gone := make(chan struct{})
	go func() {
		v, err := f()
		select {
		case done <- result{v, err}:
		default:
		}
		if late != nil {
			select {
			case <-gone:
				late(v, err)
			default:
			}
		}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		close(gone)
		var none T
		select {
		case r := <-done: // it was just done
			if late != nil && r.err == nil {
				late(r.v, r.err)
			}
		default:
		}
		return none, ctx.Err()
	}
}

type content struct {
	data []byte
	stat *zk.Stat
}

func (l *link) get(ctx context.Context, path string) (content, error) {
	return call(ctx, func() (content, error) {
		data, stat, err := l.conn.Get(path)
		return content{data, stat}, err
	}, nil)
}

// see reads a node and has w told of its next change.
func (l *link) see(ctx context.Context, path string) (content, error) {
	return call(ctx, func() (content, error) {
		data, stat, _, err := l.conn.GetW(path)
		return content{data, stat}, err
	}, nil)
}

// spot has watches of the node told of its end, and reports whether it is there.
func (l *link) spot(ctx context.Context, path string) (*zk.Stat, error) {
	return call(ctx, func() (*zk.Stat, error) {
		_, stat, _, err := l.conn.GetW(path) // not exists, which would watch for a node that does not come back
		return stat, err
	}, nil)
}

type children struct {
	names []string
	stat  *zk.Stat
}

func (l *link) list(ctx context.Context, path string, watch bool) (children, error) {
	return call(ctx, func() (children, error) {
		if watch {
			names, stat, _, err := l.conn.ChildrenW(path)
			return children{names, stat}, err
		}
		names, stat, err := l.conn.Children(path)
		return children{names, stat}, err
	}, nil)
}

func (l *link) multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return call(ctx, func() ([]zk.MultiResponse, error) {
		answers, err := l.conn.Multi(ops...)
		for _, a := range answers { // the first that failed says why
			if a.Error != nil {
				return answers, a.Error
			}
		}
		return answers, err
	}, nil)
}

func (l *link) remove(ctx context.Context, path string) error {
	_, err := call(ctx, func() (struct{}, error) { return struct{}{}, l.conn.Delete(path, -1) }, nil)
	return err
}

func (l *link) set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return call(ctx, func() (*zk.Stat, error) { return l.conn.Set(path, data, version) }, nil)
}

// sync waits until the server has caught up with the leader.
func (l *link) sync(ctx context.Context, path string) error {
	_, err := call(ctx, func() (string, error) { return l.conn.Sync(path) }, nil)
	return err
}

// wait returns when the client has a session.
func (l *link) wait(ctx context.Context) error {
	up := make(chan struct{}, 1)
	stop := l.tap.listen(&listener{
		connected: func(int64) { ring(up) },
	})
	defer stop()
	if s, _ := l.tap.state(); s != 0 {
		return nil
	}
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dialled connects and waits for a session.
func (c *config) dialled(ctx context.Context, ttl time.Duration) (*link, error) {
	failures := &failures{}
	tap := NewTap(failures.dial(c.dial))
	conn, _, err := zk.Connect(c.hosts, ttl, zk.WithDialer(tap.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		zk.WithEventCallback(failures.event))
	if err != nil {
		return nil, driver.Invalid(fmt.Errorf("zookeeper: %w", err))
	}
	l := &link{conn: conn, tap: tap, own: true}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	stop := failures.await(len(c.hosts), cancel)
	defer stop()
	if err := l.wait(ctx); err != nil {
		go conn.Close()
		return nil, failures.explain(err)
	}
	if c.auth != "" {
		if _, err := call(ctx, func() (struct{}, error) { return struct{}{}, conn.AddAuth("digest", []byte(c.auth)) }, nil); err != nil {
			go conn.Close()
			return nil, fmt.Errorf("zookeeper: the user of the URL: %w", err)
		}
	}
	return l, nil
}

// close ends the session at once, if the connection is our own.
func (l *link) close() {
	if l.own {
		l.conn.Close()
	}
}
