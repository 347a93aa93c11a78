package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/internal/backoff"
)

// Link is a connection, over which a session of ZooKeeper lives and, after
// the end of that, another.
type Link struct {
	Conn *client.Conn
	*Tap
	Own   bool // else the program's
	leave func()

	containers sync.RWMutex // of those who make one
	slots      slots
}

// NewLink is given what closes the client; nil: it is the program's.
func NewLink(conn *client.Conn, tap *Tap, leave func()) *Link {
	return &Link{Conn: conn, Tap: tap, Own: leave != nil, leave: leave}
}

// Content is a node's.
type Content struct {
	Data []byte
	Stat *client.Stat
}

// Get reads a node.
func (l *Link) Get(ctx context.Context, path string) (Content, error) {
	return Call(ctx, func() (Content, error) {
		data, stat, err := l.Conn.Get(path)
		return Content{data, stat}, err
	})
}

// See reads a node and has its watches told of the next change.
func (l *Link) See(ctx context.Context, path string) (Content, error) {
	return Call(ctx, func() (Content, error) {
		l.arm(opGetData, path)
		data, stat, err := l.Conn.Get(path)
		return Content{data, stat}, err
	})
}

// Exists looks for a node and has its watches told when it is made, changed or removed. Its
// stat is nil if there is none.
func (l *Link) Exists(ctx context.Context, path string) (*client.Stat, error) {
	return Call(ctx, func() (*client.Stat, error) {
		l.arm(opExists, path)
		there, stat, err := l.Conn.Exists(path)
		if !there {
			stat = nil
		}
		return stat, err
	})
}

// Stands is ErrNoNode unless the node is there, or, without there, is not. Its next change is told.
func (l *Link) Stands(ctx context.Context, path string, there bool) error {
	stat, err := l.Exists(ctx, path)
	if err == nil && (stat != nil) != there {
		err = ErrNoNode
	}
	return err
}

// Children is a list of a node's children.
type Children struct {
	Names []string
	Stat  *client.Stat
	Epoch uint64 // the connection that they were read on, at the latest
}

// List reads the names of a node's children, and has a watch of these told of the next change.
func (l *Link) List(ctx context.Context, path string, watch bool) (Children, error) {
	return Call(ctx, func() (Children, error) {
		epoch := l.Epoch()
		if watch {
			l.arm(opGetChildren2, path)
		}
		names, stat, err := l.Conn.Children(path)
		return Children{names, stat, epoch}, err
	})
}

// Multi makes all changes or none.
func (l *Link) Multi(ctx context.Context, ops ...any) ([]client.MultiResponse, error) {
	return Call(ctx, func() ([]client.MultiResponse, error) {
		answers, err := l.Conn.Multi(ops...)
		for _, a := range answers { // the first that failed says why
			if a.Error != nil {
				return answers, a.Error
			}
		}
		return answers, err
	})
}

// Remove removes a node of any version.
func (l *Link) Remove(ctx context.Context, path string) error {
	return do(ctx, func() error { return l.Conn.Delete(path, -1) })
}

// Set writes a node that has this version; -1 is any.
func (l *Link) Set(ctx context.Context, path string, data []byte, version int32) (*client.Stat, error) {
	return Call(ctx, func() (*client.Stat, error) { return l.Conn.Set(path, data, version) })
}

// Make makes a node.
func (l *Link) Make(ctx context.Context, path string, data []byte, flags int32, acl []client.ACL) error {
	return do(ctx, func() error { _, err := l.Conn.Create(path, data, flags, acl); return err })
}

// Container makes a node that the server removes when it is empty.
func (l *Link) Container(ctx context.Context, path string, acl []client.ACL) error {
	return do(ctx, func() error {
		l.containers.RLock()
		defer l.containers.RUnlock()
		_, err := l.Conn.CreateContainer(path, nil, client.FlagContainer, acl)
		return err
	})
}

// Sync waits until the server has caught up with the leader.
func (l *Link) Sync(ctx context.Context, path string) error {
	return do(ctx, func() error { _, err := l.Conn.Sync(path); return err })
}

// CatchUp waits until the server shows all that any client has seen before: the
// reply to a transaction comes after all earlier ones. A sync is not enough, since the
// leader may answer its own clients before it shows what its followers show already.
func (l *Link) CatchUp(ctx context.Context, path string) error {
	_, err := l.Multi(ctx, &Check{Path: path, Version: -1})
	if errors.Is(err, ErrNoNode) {
		return nil
	}
	return err
}

// Created is a sequential node: its transaction, and the session that made it.
type Created struct {
	Path          string
	Zxid, Session int64
}

// CreateSequential makes an ephemeral, sequential node, and waits for the answer.
func (l *Link) CreateSequential(stem string, data []byte, acl []client.ACL) (Created, error) {
	l.expect(stem)
	path, err := l.Conn.Create(stem, data, client.FlagEphemeralSequential, acl)
	c := l.taken(stem)
	return Created{path, c.zxid, c.session}, err
}

// Wait returns when the client has a session.
func (l *Link) Wait(ctx context.Context) error {
	up := make(chan struct{}, 1)
	stop := l.Listen(&Listener{Connected: func(int64, time.Duration) { ring(up) }})
	defer stop()
	if s, _ := l.State(); s != 0 {
		return nil
	}
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quiet keeps the client from writing to the program's log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Connect connects and waits for a session.
func (s *Servers) Connect(ctx context.Context, ttl time.Duration) (*Link, error) {
	failures, hosts := &failures{}, &hosts{}
	tap := NewTap(failures.dial(hosts.dial(s.Dialler(hosts.name))))
	hosts.ttl = func() time.Duration { _, granted := tap.State(); return granted }
	conn, _, err := client.Connect(s.Hosts, ttl, client.WithDialer(tap.Dial), client.WithLogger(quiet{}), client.WithLogInfo(false),
		client.WithEventCallback(failures.event), client.WithHostProvider(hosts))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	l := NewLink(conn, tap, func() { hosts.leave(conn) })
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	stop := failures.await(len(s.Hosts), cancel)
	defer stop()
	if err := l.Wait(ctx); err != nil {
		err = failures.explain(err) // before the end of the connection counts as a failure
		go l.leave()
		return nil, err
	}
	if s.Auth != "" {
		if err := do(ctx, func() error { return conn.AddAuth("digest", []byte(s.Auth)) }); err != nil {
			go l.leave()
			return nil, fmt.Errorf("zookeeper: the user of the URL: %w", err)
		}
	}
	return l, nil
}

// Close ends the session at once, if the connection is our own. If the client is closed while it makes a
// container, it reads the answer while that may still be written: see docs/upstream.md. So the answers are
// waited for, and a connection on which none comes is cut.
func (l *Link) Close() {
	if !l.Own {
		return
	}
	none := l.madeAll()
	if !none {
		l.drop()
		none = l.madeAll()
	}
	l.leave()
	if none {
		l.containers.Unlock()
	}
}

// madeAll reports whether within a second no container is being made. Then none will be.
func (l *Link) madeAll() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for !l.containers.TryLock() {
		if backoff.Sleep(ctx, time.Millisecond) != nil {
			return false
		}
	}
	return true
}
