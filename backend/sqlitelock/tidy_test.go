package sqlitelock

import (
	"testing"

	"github.com/interlock-go/interlock/driver/exchange"
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
			if _, err := d.store.Read(t.Context(), name, f); err != nil {
				t.Fatal(err)
			}
			if _, err := d.store.Load(t.Context(), name, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := lives.store.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]int64{
		"SELECT count(*) FROM watch":                                      2,
		"SELECT count(*) FROM watch WHERE name = 'alone'":                 0,
		"SELECT count(*) FROM queue WHERE name = 'both' AND watched":      1,
		"SELECT count(*) FROM queue WHERE name = 'alone' AND watched":     0,
		"SELECT count(DISTINCT post) FROM watch WHERE name = 'both'":      1,
		"SELECT count(*) FROM queue WHERE name = 'alone' AND NOT watched": 1,
		"SELECT count(*) FROM cell WHERE name IN ('both', 'alone')":       2,
	} {
		if n := count(t, lives, sql); n != want {
			t.Errorf("%s: %d, not %d", sql, n, want)
		}
	}
}
