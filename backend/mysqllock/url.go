package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

var shown = append([]string{"table_prefix", "max_connections", "galera", "get_server_public_key", "socket", "dial_timeout", "tls"}, tlsoption.Names...)

func init() {
	for _, scheme := range []string{"mysql", "mariadb"} {
		driver.Register(scheme, open, shown...)
		driver.RegisterExaminer(scheme, examine)
	}
}

// open connects to mysql://user:password@host:port/database?options.
func open(ctx context.Context, u *driver.URL) (driver.Driver, error) {
	s, at, err := storeOf(u)
	if err != nil {
		return nil, err
	}
	d, err := start(ctx, s)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("mysql: %s: %w", at, err)
	}
	return d, nil
}

// storeOf reads a URL, and returns its first address, too. It connects to nothing yet.
func storeOf(u *driver.URL) (s *store, at string, err error) {
	prefix := u.Text("table_prefix", DefaultTablePrefix)
	_ = u.Text("prefix", "") // of all names, which the client puts before them
	conns := u.Int("max_connections", 10, defaultConnections)
	galera := u.Choice("galera", "", "one-node")
	askKey := u.Choice("get_server_public_key", "false", "true")
	if checkPrefix(prefix) != nil {
		u.Hide("table_prefix")
	}
	all := addresses(u)
	c, err := configure(u)
	if err := errors.Join(u.Check(), err, checkPrefix(prefix)); err != nil {
		return nil, "", err
	}
	if conns < 4 {
		return nil, "", driver.Invalid(errors.New("mysql: max_connections: at least 4 are needed, of which two wait"))
	}
	if galera != "" && len(all) > 1 {
		return nil, "", driver.Invalid(errors.New("mysql: galera=one-node and several hosts: connections could go to several nodes"))
	}
	k, err := newConnector(c, all, askKey == "true")
	if err != nil {
		return nil, "", err
	}
	return share(placeOf(u), func() *store {
		s := &store{db: sql.OpenDB(k), news: sql.OpenDB(&connector{hosts: k.hosts}), own: true, to: k, most: int(conns) - listening, prefix: prefix, oneNode: galera != "",
			unproven: c.TLS != nil && c.TLS.InsecureSkipVerify}
		s.limiter = limiterFor(s.most)
		s.widen()
		s.db.SetConnMaxIdleTime(30 * time.Second)
		s.news.SetMaxOpenConns(listening)
		return s
	}), all[0].addr, nil
}

// placeOf tells URLs apart, whose options were all read.
func placeOf(u *driver.URL) string {
	all := []string{u.User.String(), u.Path}
	for _, name := range shown {
		all = append(all, u.Text(name, ""))
	}
	return fmt.Sprintf("%q", append(all, u.Hosts...))
}

// Option changes how a database is used.
type Option func(*store)

// TablePrefix is what the names of tables and procedures begin with, instead of
// [DefaultTablePrefix].
func TablePrefix(prefix string) Option { return func(s *store) { s.prefix = prefix } }

// New uses a pool of connections that the program has already, made with github.com/go-sql-driver/mysql;
// Close of the driver leaves it open. Add interpolateParams=true to its DSN: otherwise every exchange takes
// three round trips. While something waits, or is held for more than a moment, two connections of the pool
// are kept. Connections that do not commit by themselves, or read what others have not committed, are
// refused.
func New(ctx context.Context, db *sql.DB, opts ...Option) (driver.Driver, error) {
	like := &store{prefix: DefaultTablePrefix}
	for _, o := range opts {
		o(like)
	}
	if err := checkPrefix(like.prefix); err != nil {
		return nil, err
	}
	type pool struct {
		db      *sql.DB
		prefix  string
		oneNode bool
	}
	s := share(pool{db, like.prefix, like.oneNode}, func() *store {
		return &store{db: db, news: db, prefix: like.prefix, oneNode: like.oneNode, limiter: limiterFor(db.Stats().MaxOpenConnections - listening)}
	})
	d, err := s.fit(ctx)
	if err != nil {
		s.Close()
	}
	return d, err
}

// fit starts with a pool of the program, if that is one for locks.
func (s *store) fit(ctx context.Context) (driver.Driver, error) {
	var auto int
	var isolation string
	err := s.db.QueryRowContext(ctx, "SELECT @@autocommit + 0, /*M!100000 @@tx_isolation */ /*!80000 @@transaction_isolation */").Scan(&auto, &isolation)
	switch {
	case err != nil:
		return nil, s.Explain(err)
	case auto == 0:
		return nil, driver.Invalid(errors.New("mysql: connections of the pool do not commit by themselves: add autocommit=1 to the DSN"))
	case isolation == "READ-UNCOMMITTED":
		return nil, driver.Invalid(errors.New("mysql: connections of the pool read what others have not committed: " +
			"add tx_isolation='READ-COMMITTED' (MariaDB) or transaction_isolation='READ-COMMITTED' (MySQL), with its quotes escaped as %27, to the DSN"))
	}
	return start(ctx, s)
}

func start(ctx context.Context, s *store) (driver.Driver, error) {
	if err := s.refuseCluster(ctx); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	d := exchange.New(s, s.mailbox)
	d.Limit(s.limiter)
	return d, nil
}

// limiterFor is the limiter of a pool with so many connections for exchanges. One of them is for
// heartbeats.
func limiterFor(most int) *exchange.Limiter {
	switch {
	case most+listening <= 0: // as many as anybody likes
		return nil
	case most < 3:
		return exchange.NewLimiter(1, 0, 0)
	case most == 3:
		return exchange.NewLimiter(1, 1, 0)
	}
	return exchange.NewLimiter(most-3, 1, 1)
}

// defaultConnections is how many connections the clients of a URL have at most, in one process: two listen, one is for
// heartbeats, and if all others are taken, one for what is held and one for those who give
// up; seven are for all calls.
const defaultConnections = 12

// listening are the connections on which they listen.
const listening = 2

// lockWait is for how many seconds a statement may wait for a row, on connections of the
// store's own; who has waited in vain tries again. The server goes on with that though the
// connection is closed, so that it has to end soon after an exchange whose caller has given up
// (exchange.Linger). And whoever locks the whole server, as read_only=1 does for a moment, waits
// for it: meanwhile the row's owner cannot go on either, and no heartbeat is answered.
const lockWait = 1
