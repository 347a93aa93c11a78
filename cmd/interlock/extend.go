package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newExtend(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "extend NAME ID DURATION",
		Short: "Extend or shorten a lock that was taken for a fixed time",
		Long: `Extend makes the lock NAME, which acquire has taken, end DURATION from now, sooner or later
than before. ID is what acquire has written, or its beginning. With --json it writes what
acquire does.

Exit status: 64 if the lock has no fixed end, since a process renews it; 79 if it was gone:
it has ended, or was released or evicted, and others may have had it since.`,
		Example:           `  interlock extend nightly "$id" 10m`,
		ValidArgsFunction: completeIDs(o, ofAcquire),
		RunE: func(cmd *cobra.Command, args []string) error {
			var d time.Duration
			if err := (duration{&d}).Set(args[2]); err != nil {
				return usage("DURATION %w", err)
			}
			if d == 0 {
				return usage("DURATION is 0: release gives a lock back")
			}
			if err := checkHold("DURATION", d, shortestHold); err != nil {
				return err
			}
			return o.with(func(ctx context.Context, t task) error {
				l, err := fixed(ctx, t)
				if err != nil {
					return err
				}
				if err := l.Extend(ctx, d); err != nil || !o.json {
					return err
				}
				return writeJSON(cmd.OutOrStdout(), grantOf(l))
			})(cmd, args)
		},
	}
}

// fixed finds the lease with a fixed end of NAME and ID, or the beginning of that.
func fixed(ctx context.Context, t task) (*interlock.Lease, error) {
	name, id := t.name, t.args[1]
	if id == "" {
		return nil, usage("ID is empty: it is the first word that acquire has written")
	}
	q, err := t.Admin().Queue(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := pick(q, []string{id})
	var exit *exitError
	ticket, _, _ := strings.Cut(id, ".") // of the ID of a lease
	absent := errors.As(err, &exit) && exit.code == exitAbsent
	switch {
	case absent && (ticket == "" || len(ticket) > 32 || strings.Trim(ticket, "0123456789abcdef") != ""):
		return nil, usage("%q is not an ID, or the beginning of one: it is the first word that acquire has written", id)
	case absent:
		return nil, failed(exitLost, fmt.Errorf("%s: no lock has the ID %s any more: it has ended, or was released", name, id))
	case err != nil:
		return nil, err
	case !ofAcquire(m):
		return nil, usage("%s: %s has no fixed end, so it is not one of acquire (%s)", name, id, instead(m))
	}
	return t.Adopt(ctx, name, m.ID)
}

// ofAcquire reports whether a member holds a lock with a fixed end.
func ofAcquire(m interlock.Member) bool { return m.Token != 0 && m.Fixed && !m.Foreign }

// instead says what can be done about a member that has no fixed end.
func instead(m interlock.Member) string {
	switch {
	case m.Foreign:
		return "it is of another library"
	case m.Token == 0:
		return "it waits"
	}
	return "its process renews it; revoke asks for it, evict takes it away"
}
