// Package fence checks fencing tokens at the resource that a lock protects.
//
// A lock cannot stop a holder that does not run: a process that was paused, or
// a write that was delayed on its way, may arrive after the lock has passed to
// another. The token of each exclusive grant is larger than those of all
// earlier grants of the same lock, so the resource itself can tell: it
// remembers the largest token that it has seen and refuses smaller ones.
//
//   - [Table] keeps the largest token of each resource in a table of its own,
//     [Column] in the very row that is written; both check inside the caller's
//     transaction, on PostgreSQL, MySQL, MariaDB and SQLite.
//   - [File] keeps it in a file, for resources that several processes of one
//     machine share; [Memory] in memory, for resources that one process owns.
//   - [Store] is what a server needs that works for the holders of locks, over any storage.
//     Package fencehttp carries tokens over HTTP.
//
// # Check before you read
//
// A check makes the resource refuse every older holder from then on. So the
// first check belongs before the holder's first read of what it is going to
// write. If it only comes with the write, then an older holder may write
// between the two, with a token that nobody has outdone yet, and its change is
// lost.
//
// A holder may check and write as often as it likes with the same token. What
// makes one write idempotent, such as the identity of an order, is not a
// matter of the token.
package fence

import (
	"errors"
	"fmt"
	"math"
	"reflect"
)

var (
	// ErrStale says that the resource has seen a larger token: the lock has
	// passed to another. The error is a [*StaleError], with both tokens. Nothing
	// was written; roll the transaction back and stop the work.
	ErrStale = errors.New("stale token")

	// ErrNotComparable says that a token means nothing to a resource: that of a
	// shared grant (a reader, a permit) does not grow from holder to holder, and
	// several locks that are held as one have no token of their own.
	ErrNotComparable = errors.New("token not comparable")
)

// Grant is what a check needs to know of a lock's grant. *interlock.Lease is
// one, and so is a bare [Token].
type Grant interface {
	Token() uint64
	Exclusive() bool // nobody else holds the lock at the same time
}

// Token is the token of an exclusive grant that reached this program as a
// number, such as INTERLOCK_TOKEN or a field of a request.
type Token uint64

func (t Token) Token() uint64   { return uint64(t) }
func (t Token) Exclusive() bool { return true }

// StaleError is an [ErrStale].
type StaleError struct {
	Resource string // as it was given to the check
	Token    uint64 // the one that was refused
	Seen     uint64 // the largest one that the resource has seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fence %s: %v: %d, but %d has been seen", e.Resource, ErrStale, e.Token, e.Seen)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// TokenOf returns the token of a grant if it can be compared with others: it is of an exclusive
// grant, and fits a signed 64-bit integer. Else, and if no grant is given: ErrNotComparable.
func TokenOf(g Grant) (Token, error) {
	t, err := token(g)
	return Token(t), err
}

func token(g Grant) (int64, error) {
	// LeaseFrom returns a nil *Lease for a context that has none.
	if v := reflect.ValueOf(g); g == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return 0, fmt.Errorf("fence: %w: no grant was given", ErrNotComparable)
	}
	if !g.Exclusive() {
		return 0, fmt.Errorf("fence: %w: the lock is held shared; only exclusive grants can be fenced", ErrNotComparable)
	}
	t := g.Token()
	switch {
	case t == 0:
		return 0, fmt.Errorf("fence: %w: it is 0; of several locks held as one, check the token of each part", ErrNotComparable)
	case t > math.MaxInt64:
		return 0, fmt.Errorf("fence: %w: %d is larger than any grant's", ErrNotComparable, t)
	}
	return int64(t), nil
}
