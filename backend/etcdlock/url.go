package etcdlock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

func init() {
	for _, scheme := range []string{"etcd", "etcds"} {
		driver.Register(scheme, open, append([]string{"dial_timeout"}, tlsoption.Names...)...)
		driver.RegisterExaminer(scheme, examine)
	}
}

// usual is the port of a server.
const usual = "2379"

// open connects to etcd://user:password@host1,host2/namespace?options.
func open(ctx context.Context, u *driver.URL) (driver.Driver, error) {
	client, c, err := connect(u)
	if err == nil {
		var d driver.Driver
		if d, err = newDriver(ctx, client, c, true); err == nil {
			return d, nil
		}
	}
	switch { // what the client gets is often the end of the connection alone, when it reads or when it writes
	case !hasEnded(err) || aboutTLS(err) != "":
	case u.Scheme == "etcd":
		err = fmt.Errorf("%w (if the port is one with TLS, write etcds://)", err)
	case u.Text("cert", "") == "": // the server looks at the certificate after the client has sent
		err = fmt.Errorf("%w (if the server wants a certificate: ?cert=…&key=…)", err)
	}
	return nil, err
}

// connect reads a URL. The client of it connects to nothing yet, unless it has a password.
func connect(u *driver.URL) (*clientv3.Client, config, error) {
	to, err := clientConfig(u)
	w := &wires{all: map[*wire]bool{}}
	to.DialOptions = append(slices.Clone(dialOptions), grpc.WithContextDialer(w.dial))
	c := config{wires: w, namespace: strings.Trim(u.Path, "/"), clear: u.Scheme == "etcd" && to.Password != ""}
	_ = u.Text("prefix", "") // of all names, which the client puts before them
	if err := errors.Join(u.Check(), err, c.check()); err != nil {
		return nil, c, err
	}
	client, err := clientv3.New(to)
	if err != nil {
		return nil, c, explain(err)
	}
	return client, c, nil
}

func clientConfig(u *driver.URL) (c clientv3.Config, err error) {
	c = clientv3.Config{
		DialTimeout:          u.Duration("dial_timeout", 5*time.Second),
		DialKeepAliveTime:    10 * time.Second, // a server refuses more than one in 5 s
		DialKeepAliveTimeout: 3 * time.Second,
		PermitWithoutStream:  true,
		MaxUnaryRetries:      2, // one more with a new login; the caller repeats what fails
		MaxCallRecvMsgSize:   maxAnswer,
		Logger:               zap.NewNop(),
	}
	if u.User != nil {
		c.Username = u.User.Username()
		c.Password, _ = u.User.Password()
	}
	if u.Scheme == "etcds" {
		if c.TLS, err = tlsoption.Config(u); err != nil {
			return c, driver.Invalid(fmt.Errorf("etcd: %w", err))
		}
		if c.TLS.ServerName != "" {
			verifyAs(c.TLS, c.TLS.ServerName)
		}
	} else if tlsoption.Any(u) {
		return c, driver.Invalid(errors.New("etcd: options about TLS are for the scheme etcds"))
	}
	hosts := u.Hosts
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	for _, h := range hosts {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), usual)
		}
		c.Endpoints = append(c.Endpoints, h)
	}
	return c, nil
}

// dialOptions have a heartbeat be answered within a short TTL:
//
//   - A client whose connection was refused tries again soon. The library would pause for seconds.
//   - In a busy process each time that a goroutine yields, or wakes another one, costs a turn of the scheduler, which can take 100 ms.
//     Without a buffer the library does not yield before it sends. With windows of a fixed size it sends no pings to measure them.
var dialOptions = []grpc.DialOption{
	grpc.WithDefaultCallOptions(decoded...),
	grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 150 * time.Millisecond},
		MinConnectTimeout: 5 * time.Second,
	}),
	grpc.WithWriteBufferSize(0), grpc.WithInitialWindowSize(1 << 20), grpc.WithInitialConnWindowSize(1 << 20),
}

// verifyAs has servers prove that name: the client of etcd takes the host of each instead of the name in
// the configuration.
func verifyAs(c *tls.Config, name string) {
	c.InsecureSkipVerify = true // what follows verifies
	c.VerifyConnection = func(s tls.ConnectionState) error {
		opts := x509.VerifyOptions{DNSName: name, Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(opts)
		return err
	}
}
