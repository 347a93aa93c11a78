package sqlitelock

import (
	"testing"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a client that is gone is not kept for ever among those that are told of the next change, and
// a queue that nobody else follows can be forgotten. Those that live stay.
func TestWatchersThatAreGoneAreForgotten(t *testing.T) {
	path := newFile(t)
	gone, lives := start(t, path), start(t, path)
	if gone.store.mailbox.Name == "" {
		t.Skip("no client is told of anything on this system")
	}
	for _, d := range []*client{gone, lives} {
		f := exchange.Follower{Mailbox: d.store.mailbox.Name}
		names := []string{"both"}
		if d == gone {
			names = append(names, "alone")
		}
		for _, name := range names {
			errtest.Must(d.store.Read(t.Context(), name, f))(t)
			errtest.Must(d.store.Load(t.Context(), name, f))(t)
		}
	}
	noError(t, gone.Close())
	errtest.Must(lives.store.Tidy(t.Context()))(t)
	for sql, want := range map[string]int64{
		"SELECT count(*) FROM cell WHERE name = 'alone' AND followers = ''":                                                         1,
		"SELECT count(*) FROM cell WHERE name = 'both' AND followers LIKE 'interlock\\_%' ESCAPE '\\' AND followers NOT LIKE '% %'": 1,
	} {
		if n := count(t, lives, sql); n != want {
			t.Errorf("%s: %d, not %d", sql, n, want)
		}
	}
	for name, want := range map[string]int{"both": 1, "alone": 0} {
		rewrite(t, lives, name, func(q *queue) {
			if len(q.Followers) != want {
				t.Errorf("%s is followed by %v", name, q.Followers)
			}
		})
	}
}
