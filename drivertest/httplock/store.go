// Package httplock is the example of docs/drivers.md, a backend written from the comments of
// packages driver, exchange and rows alone: a [Server] that keeps its rows in memory and serves them
// over HTTP (server.go), and the Store of its clients (this file). The rule of the rows is that of
// package rows. The test of the package runs both suites on it. It is to be read, not to be used: a
// server that stops forgets its locks.
package httplock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func init() { driver.Register("http", open) }

// open makes a driver for a URL such as http://localhost:8080.
func open(_ context.Context, u *driver.URL) (driver.Driver, error) {
	if err := u.Check(); err != nil {
		return nil, err
	}
	if len(u.Hosts) != 1 || u.User != nil || u.Path != "" {
		return nil, fmt.Errorf("%w: %s is not of the form http://HOST:PORT", driver.ErrInvalid, u)
	}
	s := &store{base: "http://" + u.Hosts[0] + "/", client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	return exchange.New(s, exchange.NewMailbox()), nil
}

// store is the exchanges with a Server.
type store struct {
	base   string
	client http.Client
}

// answer is what the server says of an exchange.
type answer[R any] struct {
	Result R
	Error  string
}

// sentinels are the errors that exchanges return. A client knows them by their texts; an error
// with another text leaves open whether the exchange took effect.
var sentinels = []error{driver.ErrBusy, driver.ErrMismatch, driver.ErrGone, driver.ErrConflict,
	exchange.ErrNotHeld, exchange.ErrTokens}

// request sends a request, and has read read the reply.
func (s *store) request(ctx context.Context, path string, args []any, read func(io.Reader) error) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	a, err := s.client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	return read(a.Body)
}

// ask makes an exchange that has a result. A reply that is cut off is an error, too.
func ask[R any](ctx context.Context, s *store, exchange string, args ...any) (R, error) {
	var a answer[R]
	err := s.request(ctx, exchange, args, func(r io.Reader) error { return json.NewDecoder(r).Decode(&a) })
	if a.Error != "" {
		err = errors.New(a.Error)
	}
	for _, sentinel := range sentinels {
		if a.Error == sentinel.Error() {
			err = sentinel
		}
	}
	return a.Result, err
}

// do makes an exchange without a result.
func (s *store) do(ctx context.Context, exchange string, args ...any) error {
	_, err := ask[any](ctx, s, exchange, args...)
	return err
}

// inQueue is the path of an exchange with a queue.
func inQueue(exchange, name string) string { return exchange + "?queue=" + url.QueryEscape(name) }

func inCell(exchange, name string) string { return exchange + "?cell=" + url.QueryEscape(name) }

// Begin makes no row: owner, TTL and mailbox of the session are in the row of each ticket.
func (s *store) Begin(ctx context.Context, _ exchange.Session) (exchange.Begun, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, errors.New("the server says nothing"))
	defer cancel()
	_, err := s.Clock(ctx)
	return exchange.Begun{}, err
}

// End returns no queues, since the server has settled them.
func (s *store) End(ctx context.Context, _ exchange.Session, tickets []exchange.Leave) ([]string, error) {
	return nil, s.do(ctx, "End", tickets)
}

func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	return ask[exchange.Status](ctx, s, inQueue("Join", j.Queue), j)
}

func (s *store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	return false, s.do(ctx, inQueue("Leave", l.Queue), l)
}

func (s *store) Shrink(ctx context.Context, of exchange.Session, t exchange.Ref, units int64) (bool, error) {
	return false, s.do(ctx, inQueue("Shrink", t.Queue), of, t.ID, units)
}

func (s *store) Keep(ctx context.Context, of exchange.Session, t exchange.Ref, d time.Duration) error {
	return s.do(ctx, inQueue("Keep", t.Queue), of, t.ID, d)
}

func (s *store) Renew(ctx context.Context, of exchange.Session, tickets []exchange.Ref, extend int) (exchange.Renewal, error) {
	all, err := ask[[]exchange.Status](ctx, s, "Look", of, tickets, extend)
	for i := extend; i < len(all); i++ {
		all[i].Stray = !all[i].Fixed
	}
	return exchange.Renewal{Tickets: all}, err
}

func (s *store) Look(ctx context.Context, of exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	return ask[[]exchange.Status](ctx, s, "Look", of, tickets, 0)
}

func (s *store) Settle(ctx context.Context, queue string) (bool, error) {
	return false, s.do(ctx, "Settle", queue)
}

func (s *store) Ask(ctx context.Context, queue, id string, demand driver.Demand) (bool, error) {
	return false, s.do(ctx, inQueue("Ask", queue), id, demand)
}

func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	return s.do(ctx, inQueue("Raise", queue), floor)
}

func (s *store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	return false, s.do(ctx, inQueue("Resize", queue), capacity)
}

func (s *store) Clock(ctx context.Context) (int64, error) {
	return ask[int64](ctx, s, "Clock")
}

func (s *store) Read(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
	return ask[exchange.Snapshot](ctx, s, inQueue("Read", queue), f)
}

// List goes on after the last name. A page without names is the last.
func (s *store) List(ctx context.Context, prefix, from string) (all []exchange.Snapshot, next string, err error) {
	if all, err = ask[[]exchange.Snapshot](ctx, s, "List", prefix, from); len(all) > 0 {
		next = all[len(all)-1].Name
	}
	return all, next, err
}

func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	if names, err = ask[[]string](ctx, s, "Cells", prefix, from); len(names) > 0 {
		next = names[len(names)-1]
	}
	return names, next, err
}

func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	return ask[driver.Cell](ctx, s, inCell("Load", name), f)
}

func (s *store) Swap(ctx context.Context, swap driver.Swap) (driver.Cell, error) {
	return ask[driver.Cell](ctx, s, inCell("Swap", swap.Name), swap)
}

// Tidy returns no queues, since the server has settled them.
func (s *store) Tidy(ctx context.Context) ([]string, error) {
	return nil, s.do(ctx, "Tidy")
}

// Listen is up when the header has come: the server has noted the mailbox before it sends that. A
// connection over which no sign of life comes is given up: it may be dead without an end.
func (s *store) Listen(ctx context.Context, mailbox string, up func(), receive func(exchange.Event)) error {
	const patience = 4 * signOfLife
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(patience, cancel)
	defer silent.Stop()
	return s.request(ctx, "?mailbox="+mailbox, nil, func(r io.Reader) error {
		up()
		for events := json.NewDecoder(r); ; {
			var ev *exchange.Event
			if err := events.Decode(&ev); err != nil {
				return err
			}
			if silent.Reset(patience); ev != nil {
				receive(*ev)
			}
		}
	})
}

func (s *store) Check(ctx context.Context) []driver.Finding {
	if _, err := s.Clock(ctx); err != nil {
		return []driver.Finding{{Check: "server", Status: driver.Fail, Detail: err.Error(), Promise: "all of them", Remedy: "start the server"}}
	}
	return []driver.Finding{{Check: "server", Status: driver.OK, Detail: s.base + " answers"}}
}

// Explain marks nothing as permanent: the server may be started at any time.
func (s *store) Explain(err error) error { return fmt.Errorf("server %s: %w", s.base, err) }

func (s *store) Close() { s.client.CloseIdleConnections() }
