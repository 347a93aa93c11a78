package pglock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/socket"
)

func init() {
	shown := []string{"schema", "table_prefix", "schema_owner", "durability"}
	for _, key := range forwarded {
		if key != "password" && key != "sslpassword" {
			shown = append(shown, key)
		}
	}
	for _, scheme := range []string{"postgres", "postgresql"} {
		driver.Register(scheme, open, shown...)
		driver.RegisterExaminer(scheme, examine)
	}
}

// forwarded are the options that libpq and pgx know, and that make sense here.
var forwarded = []string{
	"host", "port", "user", "password", "dbname", "passfile", "service", "servicefile",
	"sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslsni", "sslnegotiation", "ssl_min_protocol_version", "ssl_max_protocol_version",
	"krbsrvname", "krbspn", "channel_binding", "require_auth",
	"application_name", "connect_timeout", "target_session_attrs",
	"pool_max_conns", "pool_min_conns", "pool_max_conn_lifetime", "pool_max_conn_idle_time",
}

// connectTimeout is how long an attempt to connect to one host may take, unless the URL says.
// Until then it takes a place of the pool, also if nobody waits for it any more.
const connectTimeout = 5 * time.Second

// defaultConnections bounds the pool of a URL that does not say, however many processors
// there are.
const defaultConnections = 4

// defaultIdle is how long a connection stays without use. One that is made again takes some
// milliseconds; half an hour, which pgx takes by default, kept a server full of those of processes that had been
// busy once.
const defaultIdle = 30 * time.Second

// open connects to postgres://user:password@host:port/database?options.
func open(ctx context.Context, u *driver.URL) (driver.Driver, error) {
	s, err := storeOf(u)
	if err != nil {
		return nil, err
	}
	return newDriver(ctx, s)
}

// storeOf reads a URL. It connects to nothing yet.
func storeOf(u *driver.URL) (*store, error) {
	c := &config{
		schema: Schema{Name: u.Text("schema", ""), Prefix: u.Text("table_prefix", ""), Owner: u.Text("schema_owner", "")},
		direct: u.Text("direct", ""),
	}
	c.kind = u.Choice("durability", "", "logged", "unlogged")
	c.schema.Logged = c.kind == "logged"
	_ = u.Text("prefix", "") // of all names, which the client puts before them
	if c.schema.check() != nil {
		u.Hide("schema", "table_prefix")
	}
	text := connectionString(u)
	if err := errors.Join(u.Check(), c.check()); err != nil {
		return nil, err
	}
	pool, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, driver.Invalid(fmt.Errorf("postgres: %w", unreadable(u, err)))
	}
	if len(u.Hosts) > 1 && pool.ConnConfig.ValidateConnect == nil && u.Text("target_session_attrs", "") == "" { // one of them is the primary
		pool.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if pool.ConnConfig.RuntimeParams["application_name"] == "" {
		pool.ConnConfig.RuntimeParams["application_name"] = "interlock"
	}
	if pool.ConnConfig.ConnectTimeout == 0 {
		pool.ConnConfig.ConnectTimeout = connectTimeout
	}
	if u.Text("pool_max_conns", "") == "" {
		pool.MaxConns = defaultConnections
	}
	if u.Text("pool_max_conn_idle_time", "") == "" {
		pool.MaxConnIdleTime, pool.HealthCheckPeriod = defaultIdle, defaultIdle/2
	}
	hearWarnings(pool.ConnConfig)
	careful(&pool.ConnConfig.Config)
	p, err := poolTo(pool, text)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return newStore(p, c), nil
}

// connectionString is the URL as pgx reads it, without the options of this package.
func connectionString(u *driver.URL) string {
	q := url.Values{}
	for _, key := range forwarded {
		if v := u.Text(key, "\x00"); v != "\x00" {
			q.Set(key, v)
		}
	}
	p := url.URL{Scheme: "postgres", User: u.User, Path: u.Path}
	if hosts, ports, ok := sockets(u.Hosts); ok {
		q.Set("host", hosts)
		q.Set("port", ports)
	} else {
		p.Host = strings.Join(u.Hosts, ",")
	}
	p.RawQuery = q.Encode()
	return p.String()
}

// unreadable is what pgx says of a connection string, without that, and without the values of
// options.
func unreadable(u *driver.URL, err error) error {
	u.Hide(forwarded...)
	var p *pgconn.ParseConfigError
	if !errors.As(err, &p) {
		return errors.New("pgx cannot read the URL")
	}
	text := err.Error()
	why := text[strings.LastIndex(text, "`: ")+3:]
	if inner := p.Unwrap(); inner != nil && strings.Contains(inner.Error(), `"`) { // it quotes a value
		why = strings.TrimSuffix(why, " ("+inner.Error()+")")
	}
	why, _, _ = strings.Cut(why, " value: ")
	return errors.New(why)
}

// sockets reads hosts, if one is a folder with the socket of a server. Its slashes are escaped,
// and pgx wants such hosts as options.
func sockets(all []string) (hosts, ports string, some bool) {
	const usual = "5432"
	var names, numbers []string
	for _, h := range all {
		name, port := h, usual
		at, number, has := strings.Cut(h, ":")
		if folder, ok := driver.SocketPath(at); ok {
			some, name = true, folder
			if has {
				port = number
			}
		} else if host, number, err := net.SplitHostPort(h); err == nil {
			name, port = host, number
		}
		names, numbers = append(names, name), append(numbers, port)
	}
	return strings.Join(names, ","), strings.Join(numbers, ","), some
}

// directConfig is that of the connection on which news arrive.
func directConfig(text string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, driver.Invalid(errors.New("postgres: direct is not a URL or connection string of PostgreSQL"))
	}
	careful(&c.Config)
	return c, nil
}

// maxReply bounds the messages of a server, which a client otherwise allocates as they say.
const maxReply = 64 << 20

// careful has a connection trust whoever answers with no more than needed: with bounded memory, and,
// unless the URL or the surroundings say which ways to log in are allowed, or it is known who
// answers, not with the password itself or a number from which it can be guessed at once.
func careful(c *pgconn.Config) {
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(maxReply)
		return f
	}
	known := guarded(c.Host) || verified(c.TLSConfig)
	for _, other := range c.Fallbacks {
		known = known && (guarded(other.Host) || verified(other.TLSConfig))
	}
	if c.RequireAuth == "" && !known {
		c.RequireAuth = "!password,!md5"
	}
}

// guarded reports whether a host is a folder in which nobody else can have made the server's socket. On a port of this
// machine everybody can listen.
func guarded(host string) bool {
	return strings.HasPrefix(host, "/") && socket.Guarded(host+"/.s.PGSQL")
}

// verified reports whether a connection ends at a server that the certificate names.
func verified(c *tls.Config) bool {
	return c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil || c.VerifyConnection != nil)
}
