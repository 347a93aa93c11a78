// Package sqlcode has the codes with which the functions and procedures of pglock and
// mysqllock say why an exchange has not done what was asked.
package sqlcode

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// The codes are the same in all databases. An answer that is not negative is not a code.
const (
	Busy     = -1
	Gone     = -2
	Mismatch = -3
	Tokens   = -4
	NotHeld  = -5
	Session  = -6
	More     = -7 // only of a Join and a Resize: see ErrMore
)

// ErrMore is the answer to a Join, or a Resize, that the store has to repeat: the function has taken out as
// many tickets as one exchange may.
var ErrMore = errors.New("there is more to be taken out")

// Err is what a code means. An unknown code is an error too: the functions in the database are
// of another version then, and may have done anything.
func Err(code int64) error {
	switch code {
	case 0:
		return nil
	case Busy:
		return driver.ErrBusy
	case Gone:
		return driver.ErrGone
	case Mismatch:
		return driver.ErrMismatch
	case Tokens:
		return exchange.ErrTokens
	case NotHeld:
		return exchange.ErrNotHeld
	case Session:
		return driver.ErrSession
	case More:
		return ErrMore
	}
	return driver.Permanent(fmt.Errorf("the database has answered with the code %d, which this version does not know: were its tables and procedures made by another one?", code))
}
