package rows

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strings"
)

// explained is an error of the database together with what it means.
type explained struct{ meaning, err error }

func (e *explained) Error() string   { return e.meaning.Error() + ": " + e.err.Error() }
func (e *explained) Unwrap() []error { return []error{e.meaning, e.err} }

// Explain adds what the error means, if it means anything here.
func Explain(d Dialect, err error) error {
	if err == nil || Retryable(err) {
		return err
	}
	if meaning := d.Meaning(err); meaning != nil {
		return &explained{meaning, err}
	}
	return err
}

// Retryable says whether the same may succeed in a new transaction.
func Retryable(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrConflict) || errors.Is(err, ErrDeadlock)
}

// IsRefused says whether the database has answered that the data violates a constraint.
// Some constraints are only checked by the commit.
func IsRefused(err error) bool {
	var coded interface{ Code() int }
	return strings.HasPrefix(state(err), pgViolation) || errors.As(err, &coded) && coded.Code()&0xff == sqliteConstraint
}

// fail explains an error of a statement that ran in tx. A transaction that the
// database has rolled back is ended here too: otherwise what its caller goes on
// to write in it would be committed, each statement by itself.
//
// When a context ends, drivers have many ways to say that their connection is
// gone; then the context is why.
func fail(ctx context.Context, d Dialect, tx Conn, err error) error {
	if err == nil || isNone(err) {
		return err
	}
	if d.Ended(err) {
		tx.End()
	}
	err = Explain(d, err)
	if ended := ctx.Err(); ended != nil && !Retryable(err) && !errors.Is(err, ended) {
		return &explained{ended, err}
	}
	return err
}

// state is the SQLSTATE that a driver for PostgreSQL tells, or "".
func state(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// number is the error number of MySQL, or 0. The driver's error is a struct with
// a field for it, and has no method that tells.
func number(err error) (n uint64) {
	every(err, func(err error) bool {
		v := reflect.ValueOf(err)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return true
		}
		if f, ok := v.Type().FieldByName("Number"); ok && len(f.Index) == 1 && f.Type.Kind() == reflect.Uint16 {
			n = v.FieldByIndex(f.Index).Uint()
		}
		return n == 0
	})
	return n
}

// every visits an error and all that it wraps, until visit says no.
func every(err error, visit func(error) bool) bool {
	if err == nil {
		return true
	}
	if !visit(err) {
		return false
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return every(wrapper.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			if !every(inner, visit) {
				return false
			}
		}
	}
	return true
}

func isNone(err error) bool { return errors.Is(err, sql.ErrNoRows) }
