// Package doctor words what drivers find out about their backends.
package doctor

import (
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// Hint is what drivers say, in brackets, behind the refusal of a right.
const Hint = "interlock doctor names the rights that are missing"

// WithoutHint is the text of an error for those who have asked the doctor already.
func WithoutHint(text string) string { return strings.ReplaceAll(text, " ("+Hint+")", "") }

// Promises that a finding affects.
const (
	EveryLock = "every lock: none can be acquired or renewed"
	Exclusion = "exclusion: two could hold one lock"
	Strangers = "exclusion, tokens and values: who is not meant to take part can take every lock, end it and forge what is kept"
)

// Fine is a finding that affects no promise.
func Fine(format string, args ...any) driver.Finding {
	return driver.Finding{Status: driver.OK, Detail: fmt.Sprintf(format, args...)}
}

// Warn is a finding that weakens a promise, or may do so.
func Warn(promise, remedy, format string, args ...any) driver.Finding {
	return driver.Finding{Status: driver.Warn, Detail: WithoutHint(fmt.Sprintf(format, args...)), Promise: promise, Remedy: remedy}
}

// Fail is a finding that breaks a promise.
func Fail(promise, remedy, format string, args ...any) driver.Finding {
	return driver.Finding{Status: driver.Fail, Detail: WithoutHint(fmt.Sprintf(format, args...)), Promise: promise, Remedy: remedy}
}

// Unknown is the finding that something could not be found out.
func Unknown(promise string, err error) driver.Finding {
	return Warn(promise, "see the error", "it could not be examined: %v", err)
}
