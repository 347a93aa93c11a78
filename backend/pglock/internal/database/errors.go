package database

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/oneline"
)

// ReadOnlyTransaction is the code of a refusal to change anything.
const ReadOnlyTransaction = "25006"

// Explain makes one line of an error, says what it means, and marks it if it will be the same
// next time. If several attempts to connect have failed, and the last one did not come as far
// as to hear that from the server, each of them has to say so.
func Explain(err error) error {
	all := causes(err)
	hint, permanent := "", true
	var pg *pgconn.PgError
	for _, cause := range all {
		h, always := meaning(cause)
		if permanent = always && (permanent || errors.As(cause, &pg)); h != "" {
			hint = h
		}
	}
	text := err.Error()
	if all[0] != err {
		whom, _, _ := strings.Cut(text, "`:")
		text = whom + "`: " + errors.Join(all...).Error()
	}
	text = oneline.Of(text)
	if hint != "" {
		text += " (" + hint + ")"
	}
	err = &told{text, err}
	switch {
	case permanent:
		return driver.Permanent(err)
	case slices.ContainsFunc(all, starting):
		return driver.Passing(err)
	}
	return err
}

// starting reports whether a server starts, or is just being ended.
func starting(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "57P03"
}

// told is an error in other words.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.err }

const refusedTLS = "server refused TLS connection"

// causes are why each attempt to connect has failed, or the error itself. An attempt with TLS
// that was followed by one without, as the URL allows, tells nothing.
func causes(err error) []error {
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) {
		return []error{err}
	}
	attempts, ok := failed.Unwrap().(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	said := map[string]bool{}
	for _, a := range attempts.Unwrap() {
		text := a.Error()
		if at, tls := strings.CutSuffix(text, "tls error: "+refusedTLS); said[text] || tls && another(attempts.Unwrap(), at, text) {
			continue
		}
		said[text] = true
		all = append(all, a)
	}
	return all
}

// another reports whether there was an attempt at the same address with another end.
func another(attempts []error, at, text string) bool {
	for _, a := range attempts {
		if t := a.Error(); t != text && strings.HasPrefix(t, at) {
			return true
		}
	}
	return false
}

// Answered reports whether an error is the word of a server.
func Answered(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) || errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection)
}

// Denied reports whether the user lacks a right.
func Denied(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

// Missing reports whether a schema, a table or a function is not there.
func Missing(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "3F000" || pg.Code == "42P01" || pg.Code == "42883")
}

// Full reports whether the server has as many connections as it may, of all users or of this one.
func Full(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "53300"
}

// meaning says what an error means for whoever wrote the URL, and whether it will be the same
// next time.
func meaning(err error) (hint string, permanent bool) {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		switch {
		case strings.HasPrefix(pg.Code, "28") && strings.Contains(pg.Message, "no encryption"):
			return "user of the URL, and pg_hba.conf of the server, which may want TLS: sslmode=verify-full", true
		case strings.HasPrefix(pg.Code, "28"):
			return "user and password of the URL, and pg_hba.conf of the server", true
		case strings.Contains(pg.Message, "server_login_retry"):
			return "PgBouncer refuses for so long after its server has refused once, 15 s by default: set it to 1", false
		case pg.Code == "3D000":
			return "the database of the URL", true
		case Denied(err):
			return doctor.Hint, true
		case Missing(err):
			return "the tables or functions of Interlock are not there any more", true
		case pg.Code == ReadOnlyTransaction:
			return "it is a standby now, or default_transaction_read_only is on", false
		case Full(err):
			return "max_connections of the server, or the CONNECTION LIMIT of the role or the database; pool_max_conns=… of the URL needs less", false
		}
	case strings.Contains(err.Error(), refusedTLS):
		return "sslmode=disable does without TLS", true
	case strings.Contains(err.Error(), "require_auth check failed"):
		return "the server asks for more than scram-sha-256, and nothing proves who it is: sslmode=verify-full does; require_auth=md5, or =password, allows it all the same", true
	case strings.Contains(err.Error(), "certificate is valid for "):
		return "name a host that the certificate has", true
	case strings.Contains(err.Error(), "x509: "):
		return "sslrootcert=file names the authority of the server", true
	}
	return "", false
}
