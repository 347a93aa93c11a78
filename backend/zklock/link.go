package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock/internal/request"
	"github.com/interlock-go/interlock/internal/backoff"
)

// link is a connection, over which a session of ZooKeeper lives and, after
// the end of that, another.
type link struct {
	conn  *zk.Conn
	tap   *Tap
	own   bool // else the program's
	leave func()

	containers sync.RWMutex // of those who make one
	floors     floors
	slots      slots
}

// newLink is given what closes the client; nil: it is the program's.
func newLink(conn *zk.Conn, tap *Tap, leave func()) *link {
	return &link{conn: conn, tap: tap, own: leave != nil, leave: leave, floors: floors{turn: make(turn, 1)}}
}

// quiet keeps the client from writing to the program's log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

type content struct {
	data []byte
	stat *zk.Stat
}

func (l *link) get(ctx context.Context, path string) (content, error) {
	return request.Call(ctx, func() (content, error) {
		data, stat, err := l.conn.Get(path)
		return content{data, stat}, err
	})
}

// see reads a node and has w told of its next change.
func (l *link) see(ctx context.Context, path string) (content, error) {
	return request.Call(ctx, func() (content, error) {
		l.tap.arm(opGetData, path)
		data, stat, err := l.conn.Get(path)
		return content{data, stat}, err
	})
}

// exists looks for a node and has w told when it is made, changed or removed. Its
// stat is nil if there is none.
func (l *link) exists(ctx context.Context, path string) (*zk.Stat, error) {
	return request.Call(ctx, func() (*zk.Stat, error) {
		l.tap.arm(opExists, path)
		there, stat, err := l.conn.Exists(path)
		if !there {
			stat = nil
		}
		return stat, err
	})
}

// stands is zk.ErrNoNode unless the node is there, or, without there, is not. Its next change is told.
func (l *link) stands(path string, there bool) error {
	stat, err := l.exists(context.Background(), path)
	if err == nil && (stat != nil) != there {
		err = zk.ErrNoNode
	}
	return err
}

type children struct {
	names []string
	stat  *zk.Stat
	epoch uint64 // the connection that they were read on, at the latest
}

func (l *link) list(ctx context.Context, path string, watch bool) (children, error) {
	return request.Call(ctx, func() (children, error) {
		epoch := l.tap.epoch.Load()
		if watch {
			l.tap.arm(opGetChildren2, path)
		}
		names, stat, err := l.conn.Children(path)
		return children{names, stat, epoch}, err
	})
}

func (l *link) multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return request.Multi(ctx, l.conn, ops...)
}

func (l *link) remove(ctx context.Context, path string) error {
	return request.Remove(ctx, l.conn, path)
}

func (l *link) set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return request.Set(ctx, l.conn, path, data, version)
}

func (l *link) sync(ctx context.Context, path string) error { return request.Sync(ctx, l.conn, path) }

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
	tap := NewTap(failures.dial(hosts.dial(c.dialler(hosts.name))))
	hosts.ttl = func() time.Duration { _, granted := tap.state(); return granted }
	conn, _, err := zk.Connect(c.hosts, ttl, zk.WithDialer(tap.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false),
		zk.WithEventCallback(failures.event), zk.WithHostProvider(hosts))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	l := newLink(conn, tap, func() { hosts.leave(conn) })
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	stop := failures.await(len(c.hosts), cancel)
	defer stop()
	if err := l.wait(ctx); err != nil {
		err = failures.explain(err) // before the end of the connection counts as a failure
		go l.leave()
		return nil, err
	}
	if c.auth != "" {
		if _, err := request.Call(ctx, func() (struct{}, error) { return struct{}{}, conn.AddAuth("digest", []byte(c.auth)) }); err != nil {
			go l.leave()
			return nil, fmt.Errorf("zookeeper: the user of the URL: %w", err)
		}
	}
	return l, nil
}

// container makes a node that the server removes when it is empty.
func (l *link) container(ctx context.Context, path string, acl []zk.ACL) error {
	_, err := request.Call(ctx, func() (string, error) {
		l.containers.RLock()
		defer l.containers.RUnlock()
		return l.conn.CreateContainer(path, nil, zk.FlagContainer, acl)
	})
	return err
}

// close ends the session at once, if the connection is our own. If the client is closed while it makes a
// container, it reads the answer while that may still be written: see docs/upstream.md. So the answers are
// waited for, and a connection on which none comes is cut.
func (l *link) close() {
	if !l.own {
		return
	}
	nobody := l.madeAll()
	if !nobody {
		l.tap.drop()
		nobody = l.madeAll()
	}
	l.leave()
	if nobody {
		l.containers.Unlock()
	}
}

// madeAll reports whether within a second nobody makes a container. Then nobody begins to.
func (l *link) madeAll() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for !l.containers.TryLock() {
		if backoff.Sleep(ctx, time.Millisecond) != nil {
			return false
		}
	}
	return true
}
