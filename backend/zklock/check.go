package zklock

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock/internal/doctor"
	"github.com/interlock-go/interlock/driver"
)

// examine is for a URL at which no session can be opened.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	made, err := open(ctx, u)
	if err != nil {
		return nil, err
	}
	d := made.(*Driver)
	defer d.Close()
	if _, err := d.link(ctx); err != nil && !driver.IsPermanent(err) { // which servers say
		return nil, err
	}
	return d.Check(ctx), nil
}

// Check examines the ensemble, and each server that can be reached.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	if err := d.usable(ctx); err != nil {
		return []driver.Finding{doctor.Unreachable(err)}
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return doctor.New(doctor.Client{
		Hosts: d.hosts, Auth: d.auth, ACL: d.acl, Root: d.root, Aside: d.aside, Mark: markOf(0),
		Floors: func(data []byte, stat *zk.Stat) ([]string, uint64) {
			by := decodeAdditions(content{data, stat})
			return by.illegible(), by.reached()
		},
		Dial: func(name string) doctor.Dialler {
			if d.given != nil {
				return d.given.tap.dial
			}
			return d.dialler(func() string { return name })
		},
		Open: func(ctx context.Context) (*doctor.Session, error) { return d.examined(d.link(ctx)) },
		Beside: func(ctx context.Context, ttl time.Duration) (*doctor.Session, error) {
			return d.examined(d.another().dialled(ctx, ttl))
		},
	}).Check(ctx)
}

// another is for connections beside the one that is examined. The program's own
// client does not tell who its user is.
func (d *Driver) another() *config {
	if d.given == nil {
		return d.config
	}
	return &config{hosts: []string{d.given.conn.Server()}, dial: d.given.tap.dial, patience: 5 * time.Second}
}

// examined is a link as the doctor sees it.
func (d *Driver) examined(l *link, err error) (*doctor.Session, error) {
	if err != nil {
		return nil, err
	}
	return &doctor.Session{
		Conn:      l.conn,
		Timeout:   func() time.Duration { _, timeout := l.tap.state(); return timeout },
		Lay:       func(ctx context.Context, path string) error { return d.lay(ctx, l, path, false) },
		Container: func(ctx context.Context, path string) error { return l.container(ctx, path, d.acl) },
		Close:     l.close,
	}, nil
}
