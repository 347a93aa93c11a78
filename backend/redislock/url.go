package redislock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

func init() {
	shown := append([]string{"client_name", "dial_timeout", "timeout", "replicas", "replica_timeout", "master", "sentinel_user"}, tlsoption.Names...)
	driver.Register("redis", open, shown...)
	driver.Register("rediss", open, shown...)
	driver.RegisterExaminer("redis", examine)
	driver.RegisterExaminer("rediss", examine)
}

// open connects to redis://user:password@host:port/database?options.
func open(ctx context.Context, u *driver.URL) (driver.Driver, error) {
	return openBehind(ctx, u, "")
}

func openBehind(ctx context.Context, u *driver.URL, prefix string) (driver.Driver, error) {
	c, o, err := configure(u, prefix)
	if err != nil {
		return nil, err
	}
	return connect(ctx, o, c, func(err error) error { return aboutTLS(u, conn.Explain(err)) })
}

// configure reads the options of a URL.
func configure(u *driver.URL, prefix string) (*config, rueidis.ClientOption, error) {
	c := &config{
		prefix:   prefix,
		allNames: u.Text("prefix", ""),
		replicas: int(u.Int("replicas", 10, 0)),
		patience: u.Duration("replica_timeout", defaultPatience),
		own:      true,
	}
	o, err := clientOption(u)
	if err = errors.Join(u.Check(), err, c.check()); err != nil {
		return nil, o, err
	}
	c.user, c.sentinelUser = cmp.Or(o.Username, "default"), cmp.Or(o.Sentinel.Username, "default")
	return c, o, nil
}

// ClientOption is how programs connect a client of their own to the Redis of a URL, for what they keep there beside
// locks: with the URL's servers, user, database and TLS. The connections of a driver are for locks alone. An error is
// [driver.ErrInvalid], and has no password.
func ClientOption(url string) (rueidis.ClientOption, error) {
	u, err := driver.ParseURL(url)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	o, err := clientOption(u)
	if len(o.InitAddress) > 0 && strings.HasPrefix(o.InitAddress[0], "/") {
		o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	return o, err
}

func clientOption(u *driver.URL) (rueidis.ClientOption, error) {
	o := ours(rueidis.ClientOption{
		ClientName:       u.Text("client_name", defaultName),
		Dialer:           net.Dialer{Timeout: u.Duration("dial_timeout", defaultDialTimeout)},
		ConnWriteTimeout: u.Duration("timeout", defaultTimeout),
	})
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	db := strings.Trim(u.Path, "/")
	if db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return o, driver.Invalid(errors.New("redis: the database of the URL is not a number (a Unix socket takes the place of the host, with its slashes as %2F: redis://%2Frun%2Fredis.sock/0)"))
		}
		o.SelectDB = n
	}
	port := "6379"
	if master := u.Text("master", ""); master != "" {
		port = "26379"
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: master,
			Username:  u.Text("sentinel_user", ""),
			Password:  u.Text("sentinel_password", ""),
			Dialer:    o.Dialer,
		}
	}
	hosts := u.Hosts
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	for _, h := range hosts {
		if path, ok := driver.SocketPath(h); ok {
			if len(hosts) > 1 || u.Scheme == "rediss" {
				return o, driver.Invalid(fmt.Errorf("redis: the Unix socket %s is one server, without TLS: write redis:, and no other host", path))
			}
			o.InitAddress = append(o.InitAddress, path)
			continue
		}
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		o.InitAddress = append(o.InitAddress, h)
	}
	if u.Scheme == "rediss" {
		var err error
		if o.TLSConfig, err = tlsoption.Config(u); err != nil {
			return o, driver.Invalid(fmt.Errorf("redis: %w", err))
		}
	}
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.TLSConfig = o.TLSConfig
	}
	return o, nil
}

// aboutTLS says what may be behind a connection that ends before it has begun, and what helps
// against a certificate that is refused.
func aboutTLS(u *driver.URL, err error) error {
	cut := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch hint := tlsoption.Hint(err); {
	case hint != "":
		return fmt.Errorf("%w (%s)", err, hint)
	case cut && u.Scheme == "redis":
		return fmt.Errorf("%w (if the server expects TLS, write rediss://)", err)
	case cut:
		return fmt.Errorf("%w (if the server wants a certificate, add ?cert=…&key=…; it may also have as many clients as its maxclients allows)", err)
	}
	return err
}
