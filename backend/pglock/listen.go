package pglock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// lookEvery is how often it is made sure, at least, that the connection for news still leads to
// the server.
const lookEvery = 5 * time.Second

// look is how often that is made sure of: it follows the shortest TTL of all clients that share the pool.
func (p *pool) look() time.Duration {
	return min(max(time.Duration(p.ttl.Load())/3, 200*time.Millisecond), lookEvery)
}

var errSilent = fmt.Errorf("postgres: there is a pooler in between, and no direct URL: %w", errors.ErrUnsupported)

// Listen receives what is sent to the mailbox, which is a channel of the server, over a connection that others share.
func (s *store) Listen(ctx context.Context, mailbox string, up func(), receive func(exchange.Event)) error {
	if s.silent {
		return errSilent
	}
	table, senders := s.schema.name("ticket"), &s.pool.senders
	learn := func(conn *pgx.Conn) { senders.learn(conn, table) }
	return listen(ctx, s.leadsTo(), s.dial, s.pool.look, mailbox, learn, up, func(conn *pgx.Conn, sender uint32, payload string) {
		unverified := !senders.trusts(conn, table, sender)
		for line := range strings.SplitSeq(payload, "\n") {
			if e, ok := event(line); ok {
				e.Unverified = unverified
				receive(e)
			}
		}
		senders.refresh(conn, table)
	})
}

// leadsTo is the same for all whose dial leads to the same place.
func (s *store) leadsTo() any {
	if s.listen != nil {
		return s.listen.ConnString()
	}
	return s.pool
}

// dial opens the connection for news. Where the server has no more of them, the pool gives one up
// for it: who does not hear of a grant holds up a whole line.
func (s *store) dial(ctx context.Context) (*pgx.Conn, error) {
	for try := 1; ; try++ {
		conn, err := s.dialOnce(ctx)
		if err == nil || s.listen != nil || !database.Full(err) || try == dialTries || !s.pool.giveUp(ctx) {
			return conn, err
		}
	}
}

const dialTries = 3

func (s *store) dialOnce(ctx context.Context) (*pgx.Conn, error) {
	if s.listen != nil {
		return pgx.ConnectConfig(ctx, s.listen.Copy())
	}
	pool := s.pool.Config()
	c := pool.ConnConfig.Copy()
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, c); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, c)
}

// event reads what functions send:
//
//	g ID TOKEN FLAGS  granted; flags i: inherits, w: another waits behind
//	f ID TIME         it is the first in line: look after so many microseconds
//	w ID              another waits behind it
//	r ID              please give it up
//	e ID              it is not renewed any more
//	x ID              it is gone
//	q NAME            a queue has changed
//	c NAME            a cell has changed
func event(line string) (e exchange.Event, ok bool) {
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "q":
		return exchange.Event{Type: exchange.QueueChanged, Queue: rest}, true
	case "c":
		return exchange.Event{Type: exchange.CellChanged, Cell: rest}, true
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return e, false
	}
	e.ID = strings.ReplaceAll(fields[0], "-", "")
	switch {
	case what == "g" && len(fields) == 3:
		token, err := strconv.ParseUint(fields[1], 10, 64)
		e.Type = exchange.Granted
		e.Status = exchange.Status{State: exchange.Held, Token: token, Inherited: strings.Contains(fields[2], "i"), Wanted: strings.Contains(fields[2], "w")}
		return e, err == nil
	case what == "f" && len(fields) == 2:
		due, err := strconv.ParseInt(fields[1], 10, 64)
		e.Type, e.Status.Due = exchange.FirstWaiter, us(due)
		return e, err == nil
	case what == "w":
		e.Type, e.Demand = exchange.Demanded, driver.Wanted
	case what == "r":
		e.Type, e.Demand = exchange.Demanded, driver.Revoke
	case what == "e":
		e.Type, e.Demand = exchange.Demanded, driver.Evict
	case what == "x":
		e.Type = exchange.Removed
	default:
		return e, false // of a later version
	}
	return e, true
}

const (
	newsPatience = 5 * time.Second  // how long a message may take to arrive
	sendPatience = 4 * newsPatience // how long it may take until it is sent
)

// hears makes sure that what is sent through the pool arrives where this client would
// listen.
func (s *store) hears(outer context.Context) error {
	ctx, cancel := context.WithTimeout(outer, sendPatience)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	name := exchange.NewMailbox()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{name}.Sanitize()); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "SELECT pg_notify($1::text, '')", pgx.QueryExecModeExec, name); err != nil {
		return err
	}
	wait, stop := context.WithTimeout(outer, newsPatience)
	defer stop()
	if _, err = conn.WaitForNotification(wait); err == nil || outer.Err() != nil {
		return err
	}
	return driver.Permanent(fmt.Errorf("nothing that is sent to it arrives (does it lead to another database, or to a pooler?): %w", err))
}
