package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/internal/view"
)

type raisedJSON struct {
	Name  string `json:"name,omitempty"` // none: all
	Floor uint64 `json:"floor,string"`
}

func newRaiseToken(o *options) *cobra.Command {
	var all bool
	var ahead time.Duration
	cmd := &cobra.Command{
		Use:   "raise-token NAME [FLOOR]",
		Short: "Raise fencing tokens above those of another backend",
		Long: `Raise-token makes all later tokens of a lock larger than FLOOR, or, with --all, those of all
locks of the backend, also of those that nobody has used yet. Do this when locks move here
from another backend, or the backend was restored from a backup, before anybody takes a lock:
whoever checks tokens refuses smaller ones than it has seen. Without FLOOR they become
larger than the tokens of all backends that follow their clocks, by this machine's clock, or by
one that is --ahead of it: tokens of PostgreSQL are ahead by up to twenty minutes for each
crash, and by two hours for each failover. Raised tokens can be larger.

On Redis, PostgreSQL and MySQL tokens follow the server's clock: --all waits for up to ten
seconds until the clock has passed the floor, and refuses a floor that is later.`,
		SuggestFor: []string{"token"},
		Example: `  interlock admin raise-token --all --ahead 24h        before the first lock on a new ZooKeeper
  interlock admin raise-token nightly 740912345678     one lock, above a token that was seen`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return takes("[FLOOR]")(cmd, args)
			}
			return takes("NAME", "[FLOOR]")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var name string
			if !all {
				name, args = args[0], args[1:]
			}
			floor := tokenAt(time.Now().Add(ahead))
			if len(args) > 0 {
				if ahead != 0 {
					return usage("--ahead is for a raise without FLOOR")
				}
				var err error
				if floor, err = strconv.ParseUint(args[0], 10, 64); err != nil {
					return usage("FLOOR %q is not a token: a whole number below 2^63 is", args[0])
				}
			}
			return o.with(func(ctx context.Context, t task) error {
				whose, raise := "all locks", t.Admin().RaiseTokens
				if !all {
					whose, raise = view.Plain(name), func(ctx context.Context, floor uint64) error { return t.Admin().RaiseToken(ctx, name, floor) }
				}
				if err := raise(ctx, floor); err != nil {
					return err
				}
				if o.json {
					return writeJSON(cmd.OutOrStdout(), raisedJSON{name, floor})
				}
				say(cmd, "later tokens of %s are larger than %d", whose, floor)
				return nil
			})(cmd, args)
		},
	}
	durationVar(cmd.Flags(), &ahead, "ahead", "", "without FLOOR: larger than what a clock gives so much later")
	cmd.Flags().BoolVar(&all, "all", false, "of all locks of the backend, also of those to come")
	return cmd
}

// tokenAt is larger than the tokens that a backend which follows its server's clock has granted before t. They count
// units of ten microseconds, and the last twelve bits the grants within a process.
func tokenAt(t time.Time) uint64 { return uint64(t.UnixMicro()/10) << 12 }
