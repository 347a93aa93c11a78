package mysqllock

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/sqlqueue"
)

// These databases send nothing by themselves. So a client that waits parks one
// connection, in a wait for a lock of the server (GET_LOCK) that another connection of
// it, the anchor, holds and never gives up. Whoever has news for the client writes
// them into a table, commits, and ends that wait by KILL QUERY. The connection is found
// by another lock, which has the channel's name: so a number of a connection that ended
// long ago can never be that of a stranger. Nobody needs a right to end statements of
// his own user.
//
// A ring while nothing is parked would be lost. So news are read over the anchor when
// it is known that the wait has begun: the parked statement first takes a third lock,
// each time one of another name. A ring may end a statement before it has given up that
// of the one before, so that the name says nothing about another statement.

// parkFor bounds a wait, so that a server soon forgets a client that has vanished.
const parkFor = 10 * time.Minute

// patience is for how long a client that ends cleans up.
const patience = time.Second

// Listen brings news until ctx ends.
func (s *store) Listen(ctx context.Context, channel string, up func(), hear func(sqlqueue.Event)) error {
	if most := s.db.Stats().MaxOpenConnections; most > 0 && most < 4 {
		return fmt.Errorf("the pool has %d connections, of which two would wait: %w", most, errors.ErrUnsupported)
	}
	l := &listener{store: s, channel: channel, hear: hear, told: map[int64]bool{}}
	defer l.close()
	if err := l.open(ctx); err != nil {
		return err
	}
	for turn := 1; ; turn++ {
		if err := l.free(ctx); err != nil {
			return err
		}
		woken := l.park(ctx, turn)
		begun, err := l.readUntilParked(ctx, turn, woken)
		if err != nil {
			return err
		}
		if begun && up != nil {
			up()
			up = nil
		}
		select {
		case err := <-woken:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type listener struct {
	store          *store
	channel        string
	hear           func(sqlqueue.Event)
	anchor, parked *sql.Conn
	parking        chan error // of the statement that is parked; nil: none is
	unpark         context.CancelFunc
	told           map[int64]bool // news that are still in the table
	turns          []int          // whose locks the parked connection may have
}

func (l *listener) open(ctx context.Context) error {
	for _, c := range []**sql.Conn{&l.anchor, &l.parked} {
		conn, err := l.store.db.Conn(ctx)
		if err != nil {
			return err
		}
		*c = conn
		if _, err := l.store.greet(ctx, conn); err != nil {
			return err
		}
		for _, set := range []string{"wait_timeout = 86400", "max_statement_time = 0", "max_execution_time = 0"} {
			_, err := conn.ExecContext(ctx, "SET SESSION "+set)
			if err != nil && !number(err, erUnknownVariable) { // one of the last two is unknown
				return err
			}
		}
	}
	var ok sql.NullInt64
	if err := l.parked.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", l.channel+":parked").Scan(&ok); err != nil {
		return err
	}
	if ok.Int64 != 1 {
		return errors.New("mysql: somebody else listens here")
	}
	if err := l.anchor.QueryRowContext(ctx, "SELECT GET_LOCK(?, 0)", l.channel+":anchor").Scan(&ok); err != nil {
		return err
	}
	if ok.Int64 != 1 {
		return errors.New("mysql: somebody else listens here")
	}
	return nil
}

// park begins a wait. What it returns brings nil when it was ended by a ring, or has
// lasted long.
func (l *listener) park(ctx context.Context, turn int) <-chan error {
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	l.parking, l.unpark = done, cancel
	free, args := "", []any{}
	for _, old := range l.turns {
		free += "RELEASE_LOCK(?), "
		args = append(args, l.turn(old))
	}
	text, args := "SELECT "+free+"GET_LOCK(?, 0), GET_LOCK(?, ?)", append(args, l.turn(turn), l.channel+":anchor", int(parkFor.Seconds()))
	into := make([]any, len(l.turns)+2)
	for i := range into {
		into[i] = new(sql.NullInt64)
	}
	l.turns = append(l.turns, turn)
	go func() {
		defer cancel()
		err := l.parked.QueryRowContext(ctx, text, args...).Scan(into...)
		ended := into[len(into)-1].(*sql.NullInt64)
		switch {
		case number(err, erInterrupted, erTimedOut, erTimedOutToo):
			err = nil
		case err == nil && ended.Int64 == 1:
			err = errors.New("mysql: the other connection that listens was lost")
		}
		done <- err
		close(done)
	}()
	return done
}

// mostTurns is how many statements in a row may have ended before it was seen that they
// had begun.
const mostTurns = 16

// free gives up the locks of former turns, if they have become many.
func (l *listener) free(ctx context.Context) error {
	if len(l.turns) < mostTurns {
		return nil
	}
	for i, turn := range l.turns {
		_, err := l.parked.ExecContext(ctx, "DO RELEASE_LOCK(?)", l.turn(turn))
		if number(err, erInterrupted) {
			l.turns = l.turns[i:]
			return nil // the next time
		}
		if err != nil {
			return err
		}
	}
	l.turns = nil
	return nil
}

func (l *listener) turn(n int) string { return fmt.Sprint(l.channel, ":", n) }

// readUntilParked brings the news, again and again until the wait has begun, or has
// ended already.
func (l *listener) readUntilParked(ctx context.Context, turn int, woken <-chan error) (begun bool, err error) {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		parked, err := l.read(ctx, turn)
		if parked {
			l.turns = []int{turn} // it has given up the others first
		}
		if parked || err != nil {
			return parked, err
		}
		if len(woken) > 0 {
			return false, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// perHear is how many news are read at once.
const perHear = 1000

// read brings the news that there are, and says whether the wait had begun before.
func (l *listener) read(ctx context.Context, turn int) (parked bool, err error) {
	rows, err := l.anchor.QueryContext(ctx, l.store.sql("CALL {p}hear(?,?)"), []byte(l.channel), l.turn(turn))
	if err != nil {
		return false, err
	}
	defer rows.Close()
	read := 0
	for rows.Next() {
		read++
		var k sql.NullInt64
		var what int
		var ticket, name []byte
		var token, flags int64
		if err := rows.Scan(&k, &what, &ticket, &name, &token, &flags); err != nil {
			return false, err
		}
		if !k.Valid {
			parked = what == 1
			continue
		}
		if l.told[k.Int64] {
			continue
		}
		l.told[k.Int64] = true
		l.hear(event(what, ticket, name, token, flags))
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	_ = rows.Close()
	parked = parked && read <= perHear // else there may be more
	if len(l.told) >= forgetAt {
		return parked, l.forget(ctx)
	}
	return parked, nil
}

func event(what int, ticket, name []byte, token, flags int64) sqlqueue.Event {
	e := sqlqueue.Event{What: sqlqueue.What(what), ID: hex.EncodeToString(ticket)}
	switch e.What {
	case sqlqueue.Granted:
		e.Ticket = sqlqueue.Standing{State: sqlqueue.Held, Token: uint64(token), Inherited: flags&1 != 0, Wanted: flags&2 != 0}
	case sqlqueue.WaitsFirst:
		e.Ticket.Again = micros(token)
	case sqlqueue.Asked:
		e.Ask = driver.Demand(token)
	case sqlqueue.QueueChanged:
		e.Queue = string(name)
	case sqlqueue.CellChanged:
		e.Cell = string(name)
	}
	return e
}

// forgetAt is how many news may stay in the table after they were told, so that not
// each of them costs a commit of its own.
const forgetAt = 32

// forget removes what was told.
func (l *listener) forget(ctx context.Context) error {
	args := make([]any, 0, len(l.told)+1)
	args = append(args, []byte(l.channel))
	for k := range l.told {
		args = append(args, k)
	}
	_, err := l.anchor.ExecContext(ctx, l.store.sql("DELETE FROM {p}news WHERE channel = ? AND k IN ("+list(len(l.told), "?", ",")+")"), args...)
	if err == nil {
		clear(l.told)
	}
	if undone(err) { // the next time
		return nil
	}
	return err
}

// close ends the wait by giving up the anchor, and both connections.
func (l *listener) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if l.anchor != nil {
		if len(l.told) > 0 {
			_ = l.forget(ctx) // else Tidy does
		}
		discard(l.anchor)
	}
	if l.parking != nil {
		l.unpark()
		for range l.parking { // until it is closed
		}
	}
	if l.parked != nil {
		discard(l.parked)
	}
}
