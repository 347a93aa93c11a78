package conn

import (
	"errors"
	"strings"

	"github.com/redis/rueidis"
)

// Answered reports whether an error is the server's answer.
func Answered(err error) bool {
	var of *rueidis.RedisError
	var last Refusal
	return errors.As(err, &of) && !of.IsNil() || errors.As(err, &last)
}

// Refused reports whether an error means that the user lacks a right, or that the
// server does not have the command.
func Refused(text string) bool {
	for _, part := range []string{"NOPERM", "user executing the script can't", "nknown command", "nknown Redis command", "nknown subcommand"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
