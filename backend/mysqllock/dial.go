package mysqllock

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	interlock "github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/socket"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

// address is one server, in the form of the MySQL driver.
type address struct{ network, addr string }

// addresses are the servers of a URL.
func addresses(u *interlock.URL) []address {
	if socket := u.Text("socket", ""); socket != "" {
		return []address{{"unix", socket}}
	}
	hosts := u.Hosts
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	var all []address
	for _, h := range hosts {
		if path, ok := interlock.SocketPath(h); ok {
			all = append(all, address{"unix", path})
			continue
		}
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), "3306")
		}
		all = append(all, address{"tcp", h})
	}
	return all
}

// connector connects to the first server of several that answers and can be written to.
type connector struct {
	hosts
	made atomic.Int64 // connections that there are
}

// hosts are shared by the connectors of one URL.
type hosts struct {
	each []host
	long time.Duration // for one to answer
}

type host struct {
	driver.Connector
	addr string
}

// newConnector makes one. With askKey a server without TLS may be asked for the key by which the
// password is encrypted.
func newConnector(c *mysql.Config, all []address, askKey bool) (*connector, error) {
	k := &connector{hosts: hosts{long: c.Timeout}}
	for _, a := range all {
		one := c.Clone()
		one.Net, one.Addr, one.DialFunc = a.network, a.addr, dial
		if guarded := a.network == "unix" && socket.Guarded(a.addr); !guarded && c.TLS == nil && c.Passwd != "" {
			if one.Net = a.network + unguarded; !askKey { // the MySQL driver sends the password itself over what is called unix
				one.DialFunc = dialPlain
			}
		}
		next, err := mysql.NewConnector(one)
		if err != nil {
			return nil, interlock.Invalid(fmt.Errorf("mysql: %w", err))
		}
		k.each = append(k.each, host{next, a.addr})
	}
	return k, nil
}

func (k *connector) Driver() driver.Driver { return k.each[0].Driver() }

func (k *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var all []error
	for _, one := range k.each {
		conn, err := k.ask(ctx, one)
		if err == nil {
			return conn, nil
		}
		if all = append(all, err); ctx.Err() != nil {
			break
		}
	}
	if len(all) == 1 {
		return nil, all[0]
	}
	return nil, errors.Join(all...)
}

// ask connects to one. The MySQL driver bounds how long a connection takes, and not for how long the server says
// nothing on it.
func (k *connector) ask(parent context.Context, one host) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(parent, k.long)
	defer cancel()
	conn, err := k.connect(ctx, one)
	if err == nil && len(k.each) > 1 {
		if err = writable(ctx, conn); err != nil {
			_ = conn.Close()
		}
	}
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil && parent.Err() == nil:
		return nil, fmt.Errorf("mysql: %s: no answer within %v (dial_timeout)", one.addr, k.long)
	}
	return nil, err
}

// misread is how often a server's greeting is asked for again. MariaDB's ed25519 sends a
// random number of 32 bytes, and the MySQL driver (1.10) takes a last byte of 0 for the
// end of a text: it finds one greeting in 256 malformed. The server's next number is
// another one.
const misread = 3

func (k *connector) connect(ctx context.Context, one driver.Connector) (driver.Conn, error) {
	c := &conn{gone: func() { k.made.Add(-1) }}
	ctx = context.WithValue(ctx, dialed{}, &c.net)
	var made driver.Conn
	connect := func() (err error) {
		made, err = one.Connect(ctx)
		return err
	}
	err := careful(connect)
	for again := 0; errors.Is(err, mysql.ErrMalformPkt) && again < misread; again++ {
		err = careful(connect)
	}
	if errors.Is(err, errAnswer) {
		_ = c.net.Close()
	}
	if w, ok := c.net.(*plainConn); ok && w.asked {
		return nil, errKey
	}
	if err != nil {
		return nil, err
	}
	c.complete = made.(complete)
	k.made.Add(1)
	return c, nil
}

// dialed is where dial leaves what it has connected.
type dialed struct{}

func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	made, err := d.DialContext(ctx, strings.TrimSuffix(network, unguarded), addr)
	if err == nil {
		*ctx.Value(dialed{}).(*net.Conn) = made
	}
	return made, err
}

// writable refuses a server that only follows another one.
func writable(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT @@global.read_only + 0", nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	values := make([]driver.Value, 1)
	if err := rows.Next(values); err != nil {
		return err
	}
	if fmt.Sprintf("%s", values[0]) == "0" || values[0] == int64(0) {
		return nil
	}
	return database.ErrReadOnly
}

// quiet is where the MySQL driver says what its errors say as well.
type quiet struct{}

func (quiet) Print(...any) {}

// isolate follows another SET: a connection that reads what others have not committed yet
// would take a ticket for granted that is not. Each kind of server reads one half of it.
const isolate = " /*M!100000 , @@SESSION.tx_isolation = 'REPEATABLE-READ' */ /*!80000 , @@SESSION.transaction_isolation = 'REPEATABLE-READ' */"

// configure reads the options of a URL.
func configure(u *interlock.URL) (*mysql.Config, error) {
	c := mysql.NewConfig()
	c.InterpolateParams = true // one round trip for each statement
	c.Logger = quiet{}
	c.Params = map[string]string{"autocommit": "1" + isolate, "innodb_lock_wait_timeout": strconv.Itoa(lockWait)}
	c.DBName = strings.Trim(u.Path, "/")
	if u.User != nil {
		c.User = u.User.Username()
		c.Passwd, _ = u.User.Password()
	}
	if c.DBName == "" {
		return nil, interlock.Invalid(errors.New("mysql: the URL names no database: mysql://user@host/database"))
	}
	if len(u.Hosts) == 0 && strings.Contains(c.DBName, "/") {
		return nil, interlock.Invalid(errors.New("mysql: the path of the URL is not a database (a Unix socket takes the place of the host, with its slashes as %2F: " +
			"mysql://user@%2Frun%2Fmysqld%2Fmysqld.sock/database)"))
	}
	c.Timeout = u.Duration("dial_timeout", 5*time.Second)
	var err error
	c.TLS, err = tlsConfig(u)
	if err != nil {
		return nil, interlock.Invalid(err)
	}
	if c.TLS != nil && c.TLS.InsecureSkipVerify {
		c.AllowFallbackToPlaintext = false
	}
	return c, nil
}

// tlsConfig reads the options that are about TLS: without any there is none.
func tlsConfig(u *interlock.URL) (*tls.Config, error) {
	mode, others := u.Choice("tls", "", "true", "false", "skip-verify"), tlsoption.Any(u)
	switch {
	case mode == "" && others:
		mode = "true"
	case mode == "" || mode == "false":
		if others {
			return nil, errors.New("mysql: tls=false and options for TLS")
		}
		return nil, nil
	}
	c, err := tlsoption.Config(u)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	c.InsecureSkipVerify = mode == "skip-verify"
	return c, nil
}
