package zklock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

func init() {
	shown := append([]string{"timeout", "acl", "layout", "election", "semaphore", "barrier"}, tlsoption.Names...)
	for _, scheme := range []string{"zk", "zks"} {
		driver.Register(scheme, open, shown...)
		driver.RegisterExaminer(scheme, examine)
	}
}

type config struct {
	servers zk.Servers
	root    string // in front of all nodes; "" or "/…"
	acl     []zk.ACL
	names   layout
	given   *link // the program's own connection
	wrong   error // of Layout

	semaphores, barriers bool // have Curator's layouts
}

// Option changes how ZooKeeper is used.
type Option func(*config)

// Root puts all nodes below a path, which is made if it is not there.
func Root(path string) Option { return func(c *config) { c.root = strings.TrimRight(path, "/") } }

// ACL is what the nodes that are made allow to whom; everything to everybody
// by default.
func ACL(acl []zk.ACL) Option { return func(c *config) { c.acl = acl } }

// Layout has locks laid out as other libraries do, by options as a URL has them: layout=kazoo, election=latch,
// semaphore=curator and barrier=curator, such as Layout("election=latch&semaphore=curator"). docs/zookeeper.md
// describes them. A wrong option is an error of New.
func Layout(options string) Option {
	return func(c *config) {
		u, err := driver.ParseURL("zk:?" + options)
		if err == nil {
			c.layouts(u)
			err = u.Check()
		}
		c.wrong = err
	}
}

// New uses a client that the program has already, and that was connected through
// tap. Close of the driver leaves it open, and removes what the driver has there, for which it
// waits for two timeouts if no server answers. All sessions of the driver are the
// client's session, whose timeout the program has chosen.
func New(ctx context.Context, conn *zk.Conn, tap *Tap, opts ...Option) (driver.Driver, error) {
	if conn == nil || tap == nil {
		return nil, driver.Invalid(errors.New("zookeeper: New needs a client and the Tap that it was connected through"))
	}
	c := &config{acl: zk.WorldACL(zk.PermAll), given: newLink(zk.NewLink(conn, tap.tap, nil))}
	for _, o := range opts {
		o(c)
	}
	if c.wrong != nil {
		return nil, fmt.Errorf("zookeeper: %w", c.wrong)
	}
	if err := c.given.Wait(ctx); err != nil {
		return nil, fmt.Errorf("zookeeper: the client has no session, or was not connected through this Tap: %w", err)
	}
	return newDriver(c), nil
}

// open reads zk://user:password@host:port,host:port/path?options. It connects
// with the first session.
func open(_ context.Context, u *driver.URL) (driver.Driver, error) {
	c, err := configOf(u)
	if err != nil {
		return nil, err
	}
	return newDriver(c), nil
}

func configOf(u *driver.URL) (*config, error) {
	c := &config{
		root:    strings.TrimRight(u.Path, "/"),
		servers: zk.Servers{Patience: u.Duration("timeout", 5*time.Second)},
	}
	for _, h := range u.Hosts {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), "2181")
		}
		c.servers.Hosts = append(c.servers.Hosts, h)
	}
	if len(c.servers.Hosts) == 0 {
		c.servers.Hosts = []string{"127.0.0.1:2181"}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		c.servers.Auth = u.User.Username() + ":" + password
	}
	var errs []error
	c.acl, errs = acls(u, errs)
	c.layouts(u)
	if c.root != "" {
		for segment := range strings.SplitSeq(c.root[1:], "/") {
			if segment == "" || segment == "." || segment == ".." {
				errs = append(errs, fmt.Errorf("zookeeper: the path %q of the URL has an empty or dotted part", c.root))
			}
		}
	}
	if c.servers.Patience <= 0 {
		errs = append(errs, errors.New("zookeeper: timeout must be positive"))
	}
	if u.Scheme == "zks" {
		var err error
		if c.servers.TLS, err = tlsoption.Config(u); err != nil {
			errs = append(errs, fmt.Errorf("zookeeper: %w", err))
		}
	}
	if err := driver.Invalid(errors.Join(errs...)); err != nil {
		return nil, err
	}
	if err := u.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

// acls reads who may use the nodes that are made: everybody, or the user of the
// URL, or everybody to read and the user to change.
func acls(u *driver.URL, errs []error) ([]zk.ACL, []error) {
	words := []string{"world", "creator", "read"}
	if u.User != nil {
		words[0], words[1] = words[1], words[0] // the default
	}
	switch acl := u.Choice("acl", words...); {
	case acl == "world":
		return zk.WorldACL(zk.PermAll), errs
	case u.User == nil:
		return nil, append(errs, fmt.Errorf("zookeeper: acl=%s needs a user in the URL", acl))
	case acl == "creator":
		return zk.AuthACL(zk.PermAll), errs
	default:
		return append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...), errs
	}
}

// layouts reads the options of a URL.
func (c *config) layouts(u *driver.URL) {
	c.names = layout{
		kazoo: u.Choice("layout", "curator", "kazoo") == "kazoo",
		latch: u.Choice("election", "selector", "latch") == "latch",
	}
	c.semaphores = u.Choice("semaphore", "interlock", "curator") == "curator"
	c.barriers = u.Choice("barrier", "interlock", "curator") == "curator"
}
