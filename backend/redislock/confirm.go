package redislock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// confirm makes sure that replicas know of a grant, if that is asked for. WAIT
// speaks of the writes of its own connection only, and cannot be part of a script;
// so the winner writes a note, which comes after the grant, and waits for that.
// A grant that is not confirmed is given back as if it had not been.
func (s *session) confirm(ctx context.Context, p *place, t driver.Ticket) (driver.Ticket, error) {
	if s.d.replicas == 0 {
		return t, nil
	}
	err := s.d.replicated(ctx, p.q, p.id)
	if err == nil {
		return t, nil
	}
	if undo := s.undo(ctx, p, t); undo != nil {
		err = errors.Join(err, undo) // the ticket runs out, unless it is asked for again
	}
	return driver.Ticket{}, err
}

// undo takes the ticket out as if it had never been granted: whoever follows
// inherits what it would have, and a Join with its ID is welcome.
func (s *session) undo(ctx context.Context, p *place, t driver.Ticket) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.d.patience)
	defer cancel()
	answer, err := s.d.runN(ctx, call{leaveScript, p.q.keys, []string{p.id, s.id, digit(!t.Inherited), "0", "0", "0"}}, 3)
	if err != nil {
		return err
	}
	if answer[2] != 0 {
		s.d.settle(p.q)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.forget(p)
	return nil
}

// replicated waits until enough replicas have what was written about the queue, the
// grant of the ticket included.
func (d *Driver) replicated(ctx context.Context, q *queue, id string) (err error) {
	conn, err := d.dedicate(ctx, d.client, (*dedicated).Close)
	if err != nil {
		return err
	}
	defer func() { conn.done(ctx, err) }()
	note := call{noteScript, q.noteKeys(), []string{id}}
	d.exchanges.Add(2)
	there, err := conn.Do(ctx, note.byHash(conn.B())).AsInt64()
	if err != nil && unknownScript(err) {
		there, err = conn.Do(ctx, note.inFull(conn.B())).AsInt64()
	}
	if err != nil {
		return d.failed(ctx, err)
	}
	if there == 0 {
		return errors.New("redis: the master that can be reached does not know of the grant")
	}
	n, err := conn.Do(ctx, conn.B().Wait().Numreplicas(int64(d.replicas)).Timeout(d.patience.Milliseconds()).Build()).AsInt64()
	switch {
	case err != nil:
		return d.failed(ctx, err)
	case n < int64(d.replicas):
		return fmt.Errorf("redis: %d of %d replicas have confirmed the grant within %v", n, d.replicas, d.patience)
	}
	return nil
}
