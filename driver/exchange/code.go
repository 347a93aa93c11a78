package exchange

import (
	"fmt"

	"github.com/interlock-go/interlock/driver"
)

// The codes with which what runs inside a database says why an exchange has not done
// what was asked. They are the same in all databases; what they answer with otherwise
// is not negative.
const (
	CodeBusy     = -1
	CodeGone     = -2
	CodeMismatch = -3
	CodeTokens   = -4
	CodeNotHeld  = -5
	CodeSession  = -6
	CodeMore     = -7 // only a Join: see ErrMore
)

// Verdict is what a code means. One that is not known is an error: what stands in the
// database then is of another version, and may have done anything.
func Verdict(code int64) error {
	switch code {
	case 0:
		return nil
	case CodeBusy:
		return driver.ErrBusy
	case CodeGone:
		return driver.ErrGone
	case CodeMismatch:
		return driver.ErrMismatch
	case CodeTokens:
		return ErrTokens
	case CodeNotHeld:
		return ErrNotHeld
	case CodeSession:
		return driver.ErrSession
	case CodeMore:
		return ErrMore
	}
	return driver.Permanent(fmt.Errorf("the database has answered with the code %d, which this version does not know: were its tables and procedures made by another one?", code))
}
