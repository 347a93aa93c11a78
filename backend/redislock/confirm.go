package redislock

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver/exchange"
)

// confirming is a store whose grants replicas must know of.
type confirming struct{ *store }

var _ exchange.Confirmer = confirming{}

// Confirm makes sure that replicas know of a grant. WAIT
// speaks of the writes of its own connection only, and cannot be part of a script;
// so the holder writes a note, which comes after the grant, and waits for that.
func (s confirming) Confirm(ctx context.Context, o exchange.Session, t exchange.Ref, inherited bool) (undone bool, err error) {
	if err = s.replicated(ctx, o, s.queue(t.Queue), t.ID); err == nil {
		return false, nil
	}
	if undo := s.undo(ctx, o, t, inherited); undo != nil {
		return false, errors.Join(err, undo) // the ticket expires, unless it is asked for again
	}
	return true, err
}

// undo takes the ticket out as if it had never been granted: the next holder
// inherits what it would have, and a Join with its ID is welcome.
func (s *store) undo(ctx context.Context, o exchange.Session, t exchange.Ref, inherited bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	answer, err := s.runN(ctx, call{leaveScript, s.queue(t.Queue).keys, []string{t.ID, s.words(o).session, digit(!inherited), "0", "0", "0"}}, 3)
	if err != nil {
		return err
	}
	s.settle(ctx, t.Queue, answer[2] != 0)
	return nil
}

// replicated waits until enough replicas have what was written about the queue, the
// grant of the ticket included. It gives up before its caller does, who would not know what is missing.
func (s *store) replicated(ctx context.Context, o exchange.Session, q *queue, id string) (err error) {
	patience := min(s.patience, o.TTL/4)
	own, err := conn.Dedicate(ctx, s.ctx, s.client, (*conn.Dedicated).Close)
	if err != nil {
		return err
	}
	defer func() { own.Done(ctx, err) }()
	note := call{noteScript, []string{q.keys[0], q.keys[2], "interlock:{" + q.keys[0] + "}:n"}, []string{id}}
	s.exchanges.Add(2)
	there, err := own.Do(ctx, note.byHash(own.B())).AsInt64()
	if err != nil && unknownScript(err) {
		there, err = own.Do(ctx, note.inFull(own.B())).AsInt64()
	}
	if err != nil {
		return s.noted(err)
	}
	if there == 0 {
		return errors.New("the master that can be reached does not know of the grant")
	}
	n, err := own.Do(ctx, own.B().Wait().Numreplicas(int64(s.replicas)).Timeout(max(1, patience.Milliseconds())).Build()).AsInt64()
	switch {
	case err != nil:
		return s.noted(err)
	case n < int64(s.replicas):
		return fmt.Errorf("%d of %d replicas have confirmed the grant within %v", n, s.replicas, patience)
	}
	return nil
}
