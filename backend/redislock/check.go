package redislock

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/backend/redislock/internal/doctor"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// examine is for a URL that open refuses. A driver that has no feed can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	c, o, err := configure(u, "")
	if err != nil {
		return nil, err
	}
	client, err := c.conns.Client(ctx, o)
	switch {
	case conn.Answered(err):
		return []driver.Finding{doctor.TurnedAway(c.user, c.sentinelUser, err, conn.Explain(err))}, nil
	case err != nil:
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(o.InitAddress, ", "), aboutTLS(u, err))
	}
	s := newStore(client, c)
	d := exchange.New(s, s.mailbox)
	defer d.Close()
	return d.Check(ctx), nil
}

// Check is called for interlock doctor, and for programs that ask whether their backend is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	if err := s.usable(ctx); err != nil {
		return []driver.Finding{doctor.Unreachable(err)}
	}
	return doctor.New(doctor.Client{
		Redis: s.client, User: s.user, Prefix: s.prefix, AllNames: s.allNames, Replicas: s.replicas,
		Count: func() { s.exchanges.Add(1) }, Explain: s.Explain, Channel: s.channel(), Listens: s.feed.await,
		Expect: func() (event string, came <-chan struct{}) {
			number := exchange.NewNumber()
			return "p " + strconv.FormatUint(number, 10), s.feed.expect(number)
		},
	}).Check(ctx)
}
