package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is a connection, over which a session of ZooKeeper lives and, after
// the end of that, another.
type link struct {
	conn *zk.Conn
	tap  *Tap
	own  bool // else the program's

	floors floors
	slots  slots
}

func newLink(conn *zk.Conn, tap *Tap, own bool) *link {
	return &link{conn: conn, tap: tap, own: own, floors: floors{turn: make(turn, 1)}}
}

// quiet keeps the client from writing to the program's log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// call runs a call of the client, which knows no context, until ctx ends. The
// call then goes on by itself.
func call[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	return run(ctx, f)
}

// run is call that makes the call even if ctx has ended.
func run[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return f()
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
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
	})
}

// see reads a node and has w told of its next change.
func (l *link) see(ctx context.Context, path string) (content, error) {
	return call(ctx, func() (content, error) {
		l.tap.arm(opGetData, path)
		data, stat, err := l.conn.Get(path)
		return content{data, stat}, err
	})
}

// exists looks for a node and has w told when it is made, changed or removed. Its
// stat is nil if there is none.
func (l *link) exists(ctx context.Context, path string) (*zk.Stat, error) {
	return call(ctx, func() (*zk.Stat, error) {
		l.tap.arm(opExists, path)
		there, stat, err := l.conn.Exists(path)
		if !there {
			stat = nil
		}
		return stat, err
	})
}

type children struct {
	names []string
	stat  *zk.Stat
	epoch uint64 // the connection that they were read on, at the latest
}

func (l *link) list(ctx context.Context, path string, watch bool) (children, error) {
	return call(ctx, func() (children, error) {
		epoch := l.tap.epoch.Load()
		if watch {
			l.tap.arm(opGetChildren2, path)
		}
		names, stat, err := l.conn.Children(path)
		return children{names, stat, epoch}, err
	})
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
	})
}

func (l *link) remove(ctx context.Context, path string) error {
	_, err := call(ctx, func() (struct{}, error) { return struct{}{}, l.conn.Delete(path, -1) })
	return err
}

func (l *link) set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return call(ctx, func() (*zk.Stat, error) { return l.conn.Set(path, data, version) })
}

// sync waits until the server has caught up with the leader.
func (l *link) sync(ctx context.Context, path string) error {
	_, err := call(ctx, func() (string, error) { return l.conn.Sync(path) })
	return err
}

// catchUp waits until the server shows all that any client has seen before: the
// reply to a transaction comes after all earlier ones. A sync is not enough, since the
// leader may answer its own clients before it shows what its followers show already.
func (l *link) catchUp(ctx context.Context, path string) error {
	_, err := l.multi(ctx, &zk.CheckVersionRequest{Path: path, Version: -1})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
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
	failures, hosts := &failures{}, &hosts{}
	tap := NewTap(failures.dial(c.dialler(hosts.name)))
	conn, _, err := zk.Connect(c.hosts, ttl, zk.WithDialer(tap.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		zk.WithEventCallback(failures.event), zk.WithHostProvider(hosts))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	l := newLink(conn, tap, true)
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	stop := failures.await(len(c.hosts), cancel)
	defer stop()
	if err := l.wait(ctx); err != nil {
		err = failures.explain(err) // before the end of the connection counts as a failure
		go conn.Close()
		return nil, err
	}
	if c.auth != "" {
		if _, err := call(ctx, func() (struct{}, error) { return struct{}{}, conn.AddAuth("digest", []byte(c.auth)) }); err != nil {
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
