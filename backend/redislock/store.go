package redislock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// store is the exchanges with one server, or a Cluster. There are no rows of sessions: each
// ticket has its session, and an end.
type store struct {
	*config
	client  rueidis.Client
	mailbox string
	high    string // the key that is above all tokens; none in a Cluster

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	exchanges atomic.Uint64
	late      atomic.Int32 // connections for heartbeats that are still being made
	queues    queues
	last      atomic.Pointer[words] // of the last session
	feed      feed
}

var _ exchange.Counter = (*store)(nil)
var _ exchange.Traited = (*store)(nil)
var _ exchange.Resizer = (*store)(nil)
var _ exchange.Raiser = (*store)(nil)

func newStore(client rueidis.Client, c *config) *store {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &store{config: c, client: client, mailbox: base64.RawURLEncoding.EncodeToString(id[:])}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.feed.tried = make(chan struct{})
	return s
}

func newDriver(ctx context.Context, client rueidis.Client, c *config) (driver.Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := newStore(client, c)
	var grants exchange.Store = s
	if s.replicas > 0 {
		grants = confirming{s}
	}
	d := exchange.New(grants, s.mailbox)
	for attempts := 1; ; attempts++ {
		err := s.feed.await(ctx)
		if err == nil {
			s.high = s.highest(ctx)
			return d, nil
		}
		// In a Cluster the next attempt probably takes another node.
		if err = conn.Explain(err); client.Mode() != rueidis.ClientModeCluster || driver.IsPermanent(err) || ctx.Err() != nil || attempts == 10 {
			_ = d.Close()
			return nil, err
		}
	}
}

// Traits: the client of Redis sends all calls over one connection.
func (s *store) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, LookSettles: true, PerRenew: math.MaxInt, Topics: idleTopics}
}

// Exchanges counts round trips: a script, or a pipeline of scripts.
func (s *store) Exchanges() uint64 { return s.exchanges.Load() }

// highest is the key that is above all tokens, if there can be one beside the keys of a
// lock: the server may be part of a Cluster, or refuse it to a user of few keys.
func (s *store) highest(ctx context.Context) string {
	if s.client.Mode() == rueidis.ClientModeCluster {
		return ""
	}
	base := "interlock:{" + s.prefix + s.allNames
	high := base + "}:m"
	_, err := s.run(ctx, call{highScript, []string{high, base + s.mailbox + "}"}, nil})
	if err != nil && (conn.Refused(err) || strings.Contains(err.Error(), "CROSSSLOT")) {
		return ""
	}
	return high
}

// Begin makes sure that the server answers, and that events arrive.
func (s *store) Begin(ctx context.Context, _ exchange.Session) (exchange.Begun, error) {
	if _, err := s.do(ctx, s.client.B().Ping().Build()); err != nil {
		return exchange.Begun{}, err
	}
	return exchange.Begun{}, s.feed.await(ctx)
}

// Close ends calls under way.
func (s *store) Close() {
	s.cancel()
	s.conns.Close()
	if s.own {
		s.client.Close()
	}
}

var errClosed = driver.Permanent(errors.New("redis: the driver is closed"))

func (s *store) usable(ctx context.Context) error {
	if s.ctx.Err() != nil { // first: it ends contexts that are bound to it
		return errClosed
	}
	return ctx.Err()
}

// readOnly reports whether a replica was asked to write. Before Redis 7 a script says so in the
// middle of its own error.
func readOnly(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(err.Error(), "READONLY ")
}

// noted is called with the error of each command.
func (s *store) noted(err error) error {
	if s.own && err != nil && readOnly(err) {
		s.conns.Reset() // it was the master until now
	}
	return err
}

// isClosed reports whether rueidis.ErrClosing means that the client is closed. One that asks Sentinels says the same of
// calls that are under way when another server becomes the master.
func (s *store) isClosed() bool {
	return s.ctx.Err() != nil || !s.own && s.client.Mode() != rueidis.ClientModeSentinel
}

func (s *store) Explain(err error) error {
	switch word, _, _ := strings.Cut(err.Error(), " "); {
	case errors.Is(err, rueidis.ErrClosing) && s.isClosed():
		return errClosed
	case readOnly(err) && s.own:
		err = fmt.Errorf("%w (this server is a replica now: the next try connects anew, and works once that leads to the master)", err)
	case readOnly(err):
		err = fmt.Errorf("%w (this server is a replica now: tries work once the program's client has found the master)", err)
	case s.asks && conn.Stranger(err):
		return fmt.Errorf("redis: %w (the next try asks for the credentials again)", err)
	case s.client.Mode() == rueidis.ClientModeStandalone && word == "MOVED":
		err = driver.Permanent(fmt.Errorf("%w (a node of a Cluster: the user needs +cluster|slots, or the URL several hosts)", err))
	case word == "MOVED", word == "ASK", word == "TRYAGAIN":
		err = fmt.Errorf("%w (the Cluster is moving this name to another node: try again)", err)
	}
	return fmt.Errorf("redis: %w", conn.Explain(err))
}

// What scripts return instead of a ticket.
const (
	codeHeld     = 1
	codeWaits    = 2
	codeBusy     = -1
	codeGone     = -2
	codeMismatch = -3
	codeUsedUp   = -4
	codeNotHeld  = -5
	codeBack     = -6
)

func codeError(code int64) error {
	switch code {
	case codeHeld, codeWaits:
		return nil
	case codeBusy:
		return driver.ErrBusy
	case codeGone:
		return driver.ErrGone
	case codeMismatch:
		return driver.ErrMismatch
	case codeUsedUp:
		return exchange.ErrTokens
	case codeNotHeld:
		return exchange.ErrNotHeld
	}
	return fmt.Errorf("a script returned the code %d", code)
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func us(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// millis rounds up, by more than the age of the time that the server keeps for
// the expiry of keys.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds()+2, 10) }

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
