package etcdlock

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Option changes how a cluster is used.
type Option func(*config)

type config struct {
	namespace string
	clear     bool   // passwords are sent in clear text
	wires     *wires // nil: the client is another's
}

// Namespace puts a name and a slash before all keys. It is what the path of a URL says.
func Namespace(name string) Option {
	return func(c *config) { c.namespace = strings.Trim(name, "/") }
}

// New uses a client that the program has already; Close of the driver leaves it open.
func New(ctx context.Context, client *clientv3.Client, opts ...Option) (driver.Driver, error) {
	return newDriver(ctx, client, configOf(opts), false)
}

func configOf(opts []Option) (c config) {
	for _, o := range opts {
		o(&c)
	}
	return c
}

func (c config) layout() layout {
	if c.namespace == "" {
		return layout{}
	}
	return layout{c.namespace + "/"}
}

// newDriver makes sure that the cluster answers.
func newDriver(ctx context.Context, client *clientv3.Client, c config, own bool) (driver.Driver, error) {
	s, err := newStore(client, c, own)
	if err != nil {
		return nil, err
	}
	if err := s.answers(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return exchange.New(s, exchange.NewMailbox()), nil
}

func (c config) check() error {
	if c.namespace == "" {
		return nil
	}
	if err := driver.CheckName(c.namespace); err != nil {
		return fmt.Errorf("etcd: the namespace, which is the path of a URL: %w", err)
	}
	return nil
}

// answers makes sure that the cluster answers.
func (s *store) answers(ctx context.Context) error {
	_, err := s.get(ctx, s.floor(""))
	return explain(err)
}
