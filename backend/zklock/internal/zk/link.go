package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	client "github.com/go-zookeeper/zk"
)

// Link is a connection, over which a session of ZooKeeper lives and, after
// the end of that, another.
type Link struct {
	Conn *client.Conn
	*Tap
	Own   bool // else the program's
	leave func()
	slots slots
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
func (l *Link) Get(ctx context.Context, path string) (Content, error) { return l.get(ctx, path, false) }

// See reads a node and has its watches told of the next change.
func (l *Link) See(ctx context.Context, path string) (Content, error) { return l.get(ctx, path, true) }

func (l *Link) get(ctx context.Context, path string, watch bool) (Content, error) {
	a, err := l.ask(ctx, opGetData, watching(path, watch))
	if err != nil {
		return Content{}, err
	}
	r := reading{left: a.body}
	return Content{r.text(), r.stat()}, nil
}

// Exists looks for a node and has its watches told when it is made, changed or removed. Its
// stat is nil if there is none.
func (l *Link) Exists(ctx context.Context, path string) (*client.Stat, error) {
	a, err := l.ask(ctx, opExists, watching(path, true))
	if err != nil {
		return nil, Unless(err, ErrNoNode)
	}
	r := reading{left: a.body}
	return r.stat(), nil
}

// WatchAll has watches told of what happens to nodes, and to others that are not there, after a transaction: what has
// happened by now they are told at once.
func (l *Link) WatchAll(ctx context.Context, since uint64, nodes, absent []string) error {
	body := binary.BigEndian.AppendUint64(nil, since)
	for _, paths := range [][]string{nodes, absent, nil} {
		body = appendTexts(body, paths)
	}
	_, err := l.ask(ctx, opSetWatches, body)
	return err
}

// Children is a list of a node's children.
type Children struct {
	Names []string
	Stat  *client.Stat
	Epoch uint64 // the connection that they were read on, at the latest
	Since uint64 // a transaction that it shows
}

// List reads the names of a node's children, and has a watch of these told of the next change.
func (l *Link) List(ctx context.Context, path string, watch bool) (Children, error) {
	c := Children{Epoch: l.Epoch(), Since: l.Reached()}
	a, err := l.ask(ctx, opGetChildren2, watching(path, watch))
	if err == nil {
		c.read(a)
	}
	return c, err
}

func (c *Children) read(a answer) {
	r := reading{left: a.body}
	c.Names, c.Stat = r.texts(), r.stat()
	c.Since = max(c.Since, uint64(c.Stat.Pzxid))
}

// Ephemerals lists the nodes of the session below a path.
func (l *Link) Ephemerals(ctx context.Context, root string) ([]string, error) {
	a, err := l.ask(ctx, opGetEphemerals, appendText(nil, root))
	if err != nil {
		return nil, err
	}
	r := reading{left: a.body}
	return r.texts(), nil
}

// Result is what became of one of several changes.
type Result struct {
	Path string // of a node that was made
	Err  error
}

// Multi makes all changes or none. The error is the one of the first that failed.
func (l *Link) Multi(ctx context.Context, ops ...any) ([]Result, error) {
	a, err := l.ask(ctx, opMulti, changes(ops).body)
	if err != nil {
		return nil, err
	}
	return resultsOf(a)
}

func resultsOf(a answer) ([]Result, error) {
	r := reading{left: a.body}
	all := r.results()
	for _, one := range all {
		if one.Err != nil {
			return all, one.Err
		}
	}
	return all, nil
}

// do makes one change.
func (l *Link) do(ctx context.Context, op any) (answer, error) {
	r := change(op)
	return l.ask(ctx, r.op, r.body)
}

// Remove removes a node of any version.
func (l *Link) Remove(ctx context.Context, path string) error {
	_, err := l.do(ctx, &Delete{Path: path, Version: -1})
	return err
}

// Set writes a node that has this version; -1 is any.
func (l *Link) Set(ctx context.Context, path string, data []byte, version int32) (*client.Stat, error) {
	a, err := l.do(ctx, &Write{Path: path, Data: data, Version: version})
	if err != nil {
		return nil, err
	}
	r := reading{left: a.body}
	return r.stat(), nil
}

// Make makes a node.
func (l *Link) Make(ctx context.Context, path string, data []byte, flags int32, acl []client.ACL) error {
	_, err := l.do(ctx, &Create{Path: path, Data: data, Acl: acl, Flags: flags})
	return err
}

// Container makes a node that the server removes when it is empty.
func (l *Link) Container(ctx context.Context, path string, acl []client.ACL) error {
	return l.Make(ctx, path, nil, client.FlagContainer, acl)
}

// Sync waits until the server has caught up with the leader.
func (l *Link) Sync(ctx context.Context, path string) error {
	_, err := l.ask(ctx, opSync, appendText(nil, path))
	return err
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

// Made is what became of changes that were made together.
type Made struct {
	Results []Result
	Zxid    int64
}

// Change makes changes, all or none, and then lists nodes, in one round trip, and in this session only. It calls made with
// the answer to the changes, once, also when ctx ends before that comes, and returns its error. Each list is there when its
// own function returns.
func (l *Link) Change(ctx context.Context, session int64, ops []any, lists []string, made func(Made, error) error) (listed []func(context.Context) (Children, error), err error) {
	all := make([]request, 1, 1+len(lists))
	if all[0] = changes(ops); len(ops) == 1 {
		all[0] = change(ops[0])
	}
	for _, path := range lists {
		all = append(all, request{opGetChildren2, watching(path, false)})
	}
	before := Children{Epoch: l.Epoch(), Since: l.Reached()}
	w, present, err := l.present(ctx)
	if err == nil && present != session {
		err = ErrConnectionClosed
	}
	if err != nil {
		return nil, made(Made{}, err)
	}
	sent := w.send(all...)
	answered := func(ctx context.Context) (bool, error) {
		a, err := sent[0].wait(ctx)
		if err != nil && err == ctx.Err() {
			return false, err
		}
		m := Made{nil, a.zxid}
		switch r := (reading{left: a.body}); {
		case err != nil:
		case all[0].op == opMulti:
			m.Results, err = resultsOf(a)
		case all[0].op == opCreate:
			m.Results = []Result{{Path: string(r.text())}}
		}
		return true, made(m, err)
	}
	if done, err := answered(ctx); !done {
		go func() { _, _ = answered(context.Background()) }()
		return nil, err
	} else if err != nil {
		return nil, err
	}
	for _, p := range sent[1:] {
		listed = append(listed, func(ctx context.Context) (Children, error) {
			c := before
			a, err := p.wait(ctx)
			if err == nil {
				c.read(a)
			}
			return c, err
		})
	}
	return listed, nil
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
		if err := Run(ctx, func() error { return conn.AddAuth("digest", []byte(s.Auth)) }); err != nil {
			go l.leave()
			return nil, fmt.Errorf("zookeeper: the user of the URL: %w", err)
		}
	}
	return l, nil
}

// Close ends the session at once, if the connection is our own.
func (l *Link) Close() {
	if l.Own {
		l.leave()
	}
}
