package conn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Answered reports whether an error is the server's answer.
func Answered(err error) bool {
	var of *rueidis.RedisError
	var last Refusal
	return errors.As(err, &of) && !of.IsNil() || errors.As(err, &last)
}

// Forbidden reports whether an error means that the user lacks a right. Inside scripts Redis 7.0 says the
// second, later ones and Valkey the third.
func Forbidden(err error) bool {
	return contains(err.Error(), "NOPERM", "user executing the script can't", "ACL failure in script")
}

// Refused reports whether an error means that the user lacks a right, or that the
// server does not have the command.
func Refused(err error) bool {
	return Forbidden(err) || contains(err.Error(), "nknown command", "nknown Redis command", "nknown subcommand")
}

// Stranger reports whether the server does not know the user, or another password.
func Stranger(err error) bool {
	return contains(err.Error(), "WRONGPASS", "NOAUTH", "ERR AUTH", "invalid password")
}

// Explain says what a refusal means to whoever wrote the URL, and that it will be
// the same next time.
func Explain(err error) error {
	has := func(parts ...string) bool { return contains(err.Error(), parts...) }
	hint := ""
	switch {
	case Stranger(err):
		hint = "check user and password"
	case Forbidden(err):
		hint = doctor.Hint
	case has("cluster support disabled", "unknown command 'CLUSTER'"):
		hint = "several hosts mean a Cluster; with Sentinels, add ?master=name"
	case has("unknown command 'SENTINEL'"):
		hint = "?master=name needs the hosts of Sentinels"
	case has("unknown command 'EVAL"):
		hint = "if this is a Sentinel, add ?master=name"
	case has("SELECT is not allowed in cluster mode", "DB index is out of range"):
		hint = "check the number of the database"
	case has("LOADING", "MASTERDOWN", "CLUSTERDOWN"):
		return driver.Passing(err)
	default:
		return err
	}
	return driver.Permanent(fmt.Errorf("%w (%s)", err, hint))
}

func contains(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}
