// Package doctor examines ZooKeeper for whoever asks whether it is fit for locks.
package doctor

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Client is what the doctor is told of who uses the servers.
type Client struct {
	Hosts []string // of the URL; none if the program has brought its connection
	Auth  string   // user:password of the URL; "" is nobody
	ACL   []zk.ACL // of the nodes that are made

	Root  string                       // in front of all nodes; "" or "/…"
	Aside func(parts ...string) string // the path of a node that is not a queue
	Mark  []byte                       // what a release writes into the node of a queue
	// Floors reads the node floors: the names whose record is not as it was written, and a transaction that
	// the ensemble had reached once.
	Floors func(data []byte, stat *zk.Stat) (illegible []string, reached uint64)

	Dial   func(name string) Dialler                                      // connects to the server that the URL calls so
	Open   func(context.Context) (*Session, error)                        // the one that locks use
	Beside func(ctx context.Context, ttl time.Duration) (*Session, error) // another one
}

// Dialler opens a connection.
type Dialler = func(network, address string, timeout time.Duration) (net.Conn, error)

// Session is one of ZooKeeper.
type Session struct {
	Conn      *zk.Conn
	Timeout   func() time.Duration                         // as the server has granted it
	Lay       func(ctx context.Context, path string) error // makes a node and those above it
	Container func(ctx context.Context, path string) error // makes a node that goes when it is empty
	Close     func()
}

// Doctor examines the ensemble, and each server that can be reached. What servers
// tell without a session (srvr, conf, mntr) is often forbidden, and then tried out
// where that is possible.
type Doctor struct {
	Client
	session *Session
	err     error // why there is none
	servers []*server
	members *members // nil: not known
	trial   trial
}

// New is for a client that is open or was refused.
func New(c Client) *Doctor { return &Doctor{Client: c} }

// Check is called once.
func (d *Doctor) Check(ctx context.Context) []driver.Finding {
	ctx, stop := context.WithTimeout(ctx, time.Minute) // for servers that do not answer
	defer stop()
	d.session, d.err = d.Open(ctx)
	d.servers = d.askAll(ctx)
	if d.err == nil {
		d.askEnsemble(ctx)
		d.try(ctx)
		d.tryLarge(ctx)
		d.cleanUp(ctx)
		d.servers = d.askAll(ctx) // the counts have changed by what was tried
	}
	return doctor.Examine(ctx, []doctor.Check{
		{"connection", d.checkConnection},
		{"servers", d.checkServers},
		{"version", d.checkVersion},
		{"quorum", d.checkQuorum},
		{"sessions", d.checkSessions},
		{"rights", d.checkRights},
		{"listing", d.checkListing},
		{"marks", d.checkMarks},
		{"containers", d.checkContainers},
		{"access", d.checkAccess},
		{"values", d.checkLarge},
		{"clock", d.checkClock},
		{"tokens", d.checkTokens},
		{"floors", d.checkFloors},
		{"persistence", d.checkPersistence},
		{"configuration", d.checkVisible},
	})
}

// top is the node that all others are below.
func (d *Doctor) top() string { return cmp.Or(d.Root, "/") }

const (
	everyLock = "every lock: none can be acquired or renewed"
	goesOn    = "that locks go on when a server dies"
)

// Unreachable is the finding of who has no session.
func Unreachable(err error) driver.Finding {
	return doctor.Of("connection", doctor.Fail(everyLock, "see that the servers run and have a quorum, and that the URL names them (zks: with TLS)", "%v", err))
}
