package quorumlock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// tokenOf is that of a lock which two of three worlds grant.
func tokenOf(t *testing.T, without int, worlds ...*memlock.World) uint64 {
	t.Helper()
	s, members := client(t, worlds...)
	members[without].Faults().Cut()
	tk := hold(t, s)
	errtest.None(t, s.Leave(t.Context(), tk, true))
	return tk.Token
}

// Promise: tokens that follow no clock grow over the loss of a member's data, and then that of another member, if a
// lock was granted or all names were raised in between. Else they can fall: docs/quorum.md has the example.
func TestTokensGrowAfterALossOfDataThatAGrantHasFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		between func(t *testing.T, worlds []*memlock.World, last uint64) uint64 // with the first of them empty
		falls   bool
	}{
		"a grant": {between: func(t *testing.T, w []*memlock.World, _ uint64) uint64 { return tokenOf(t, 2, w...) }},
		"a raise of all names": {between: func(t *testing.T, w []*memlock.World, last uint64) uint64 {
			d, _ := quorum(t, w...)
			errtest.Is(t, d.Raise(t.Context(), "", last), nil)
			return last
		}},
		"nothing": {between: func(_ *testing.T, _ []*memlock.World, last uint64) uint64 { return last }, falls: true},
	} {
		t.Run(name, func(t *testing.T) {
			three(t, func(t *testing.T, w []*memlock.World) {
				first := w[0].Driver()
				defer first.Close()
				errtest.None(t, first.Raise(t.Context(), "q", 1000))
				last := tokenOf(t, 2, w...)
				w[0] = memlock.NewWorld()
				s, _ := client(t, w...)
				time.Sleep(ttl + time.Second) // it counts again
				errtest.None(t, s.Close(t.Context()))
				last = c.between(t, w, last)
				if next := tokenOf(t, 1, w...); (next <= last) != c.falls {
					t.Errorf("the token %d follows %d", next, last)
				}
			})
		})
	}
}

// Promise: tokens grow, whichever majority gives them.
func TestTokensGrowOverEachMajority(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		far := w[0].Driver()
		defer far.Close()
		errtest.None(t, far.Raise(t.Context(), "", 1000))
		var last uint64
		for without := range 3 {
			s, members := client(t, w...)
			members[2-without].Faults().Cut() // the first majority has the member with large tokens
			tk := hold(t, s)
			if tk.Token <= last {
				t.Fatalf("the token %d follows %d", tk.Token, last)
			}
			last = tk.Token
			errtest.None(t, s.Leave(t.Context(), tk, true))
		}
	})
}
