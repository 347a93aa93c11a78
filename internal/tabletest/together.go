package tabletest

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
)

// JoinOf is a Join of a mutex.
func JoinOf(o exchange.Session, queue string) *exchange.Join {
	return &exchange.Join{Session: o, Request: mutex(queue)}
}

// LeaveOf is the Leave of what has joined.
func LeaveOf(j *exchange.Join, clean bool) *exchange.Leave {
	return &exchange.Leave{Ref: exchange.Ref{Queue: j.Queue, ID: j.ID}, Session: j.Session, Clean: clean}
}

// Together makes a list, which must not wait for what others do.
func Together(t *testing.T, s exchange.Store, changes ...exchange.Change) []exchange.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all := make([]exchange.Answer, len(changes))
	s.Change(ctx, changes, func(i int, a exchange.Answer) { all[i] = a })
	return all
}
