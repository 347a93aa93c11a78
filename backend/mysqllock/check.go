package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/doctor"
)

// examine is for a URL that open refuses: what was not opened can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	s, at, err := storeOf(u)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.db.PingContext(ctx); err != nil && !database.Answered(err) {
		return nil, fmt.Errorf("mysql: %s: %w", at, s.Explain(err))
	}
	return s.Check(ctx), nil
}

// examination is one call of Check.
type examination struct {
	*store
	layout    database.Layout
	user      string
	variables map[string]string // of the server
}

// Check is called for interlock doctor, and for programs that ask whether their backend is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	e := &examination{store: s, layout: layoutOf(s.prefix), variables: map[string]string{}}
	return doctor.Examine(ctx, []doctor.Check{
		{"server", "it answers", e.checkServer},
		{"cluster", "not a node of a Galera cluster", e.checkCluster},
		{"version", "as new as locks need", e.checkVersion},
		{"tables", "they and the procedures fit this program, and were made by this user", e.checkTables}, // procedures of a stranger are not called
	}, append(doctor.Use(s, e.try, e.remedy), []doctor.Check{
		{"waking", "those that wait can be woken", e.checkWaking},
		{"power", "what the server has confirmed is on its disk", e.checkPower},
		doctor.Clock(s.Clock),
		{"server's name", "it is proven", e.checkName},
	}...)...)
}

// checkServer reads who the user is, and the settings of the server, over a connection for which no rights may be missing.
func (e *examination) checkServer(ctx context.Context) driver.Finding {
	err := e.aside(ctx, func(c *sql.Conn) error {
		if err := c.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&e.user); err != nil {
			return err
		}
		rows, err := c.QueryContext(ctx, "SHOW GLOBAL VARIABLES")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return err
			}
			e.variables[strings.ToLower(name)] = value
		}
		return rows.Err()
	})
	return doctor.Answer(database.Explain(err), e.remedy)
}

func (e *examination) on(name string) bool {
	return e.variables[name] == "ON" || e.variables[name] == "1"
}

// remedy says what to do about an error of the server; "" if the error names it.
func (e *examination) remedy(err error) string {
	switch {
	case errors.Is(err, database.ErrReadOnly):
		return "name the primary in the URL, too"
	case !database.Answered(err):
		return "see that the server runs, and that the URL names it"
	case database.Number(err, 1044) || database.Denied(err):
		return e.schema()
	}
	return ""
}

// schema names the commands that make what is missing. Procedures are hidden from who may not execute them.
func (e *examination) schema() string {
	user := cmp.Or(e.user, "USER") // the error names it
	return "interlock admin schema --grant " + user + " prints what makes the tables and procedures and grants all that is needed (EXECUTE is, too); " +
		"if they are there already, interlock admin schema --only-grants --grant " + user + " prints the grants"
}

func (e *examination) checkCluster(ctx context.Context) driver.Finding {
	if err := e.refuseCluster(ctx); err != nil {
		return doctor.Answer(err, e.remedy)
	}
	if e.on("wsrep_on") {
		return doctor.Warn(doctor.Exclusion, "see that all clients use this node, and another one only when it has failed: a proxy with one writer does that",
			"a node of a Galera cluster (wsrep_on), said to be the only one that clients use (galera=one-node)")
	}
	return doctor.Sound
}

func (e *examination) checkVersion(context.Context) driver.Finding {
	text := e.variables["version"]
	if maria := strings.Contains(text, "MariaDB"); maria && doctor.Older(text, 10, 6) || !maria && doctor.Older(text, 8) {
		return doctor.Warn(doctor.EveryLock, "use MariaDB 10.6 or MySQL 8.0, or a later one", "version %s is older than what this was written for", text)
	}
	return doctor.Sound
}

// checkTables is also about who has made the procedures: they run with the rights of this user.
func (e *examination) checkTables(ctx context.Context) driver.Finding {
	const promise = "what runs with the rights of this user: whoever may make procedures could be there first, with others"
	const other = "use another table_prefix= in the URL; or, if the layout is larger, a newer version of this program; or drop the tables while nobody uses them"
	var m database.Makers
	var found int
	var made bool
	var engine string
	err := e.aside(ctx, func(c *sql.Conn) (err error) {
		found, _ = e.layout.Found(ctx, c)
		if m, err = e.layout.Makers(ctx, c); err == nil {
			made, err = e.layout.Made(ctx, c)
		}
		if err != nil {
			return err
		}
		return c.QueryRowContext(ctx, "SELECT COALESCE(GROUP_CONCAT(table_name), '') FROM information_schema.tables WHERE table_schema = DATABASE() AND engine <> 'InnoDB' AND table_name IN (?,?,?,?)",
			e.prefix+"queues", e.prefix+"tickets", e.prefix+"sessions", e.prefix+"cells").Scan(&engine)
	})
	switch others := m.Others(); {
	case err != nil && found != 0 && found != e.layout.Version:
		return doctor.Fail(doctor.EveryLock, other, "%v", err)
	case driver.IsPermanent(err) && len(others) > 0:
		return doctor.Fail(promise, "ask who made it, and why; "+e.schema(), "%v", err)
	case err != nil:
		return doctor.Answer(database.Explain(err), e.remedy)
	case !made:
		return doctor.Fail(doctor.EveryLock, e.schema(), "not there, or not for this user: %s", cmp.Or(strings.Join(m.Missing, ", "), "the tables"))
	case engine != "":
		return doctor.Fail(doctor.Exclusion, "ALTER TABLE … ENGINE=InnoDB", "tables without transactions: %s", engine)
	case len(others) > 0:
		return doctor.Warn(promise, "if "+others[0]+" was not to make them, drop them, and have the right user make them", "the procedures were made by %s, who is not this user (%s)", others[0], m.Me)
	}
	return doctor.Sound
}

// try is not enough on a server that follows another one, where some users may write.
func (e *examination) try(ctx context.Context, s exchange.Store) error {
	if e.on("read_only") || e.on("innodb_read_only") || e.on("super_read_only") {
		return database.ErrReadOnly
	}
	return doctor.Try(ctx, s)
}

// checkWaking has one connection wake another one, as a grant does.
func (e *examination) checkWaking(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	name := "interlock_doctor_" + exchange.NewID()
	err := e.aside(ctx, func(waits *sql.Conn) error {
		defer database.Discard(waits)
		var id, seen sql.NullInt64
		if err := waits.QueryRowContext(ctx, "SELECT CONNECTION_ID(), GET_LOCK(?, 0)", name).Scan(&id, new(any)); err != nil {
			return err
		}
		return e.aside(ctx, func(c *sql.Conn) error {
			err := c.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&seen)
			if err == nil && seen != id {
				err = errors.New("a lock that one connection has is not seen by another: is there a proxy that spreads statements?")
			}
			if err == nil {
				_, err = c.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id.Int64))
			}
			return err
		})
	})
	if err != nil {
		return doctor.Warn("waiters are woken as soon as a lock is free: they look again and again", "use a connection to one server, and the same user for all clients", "%v", err)
	}
	return doctor.Sound
}

// checkPower is about what a server forgets that has confirmed it.
func (e *examination) checkPower(context.Context) driver.Finding {
	const promise = "after a crash nothing is granted for the longest TTL; and leases of a fixed time, values and latches of the last second are forgotten"
	flush, what := e.variables["innodb_flush_log_at_trx_commit"], "a power loss"
	if flush == "0" {
		what = "a crash of the server"
	}
	switch {
	case flush != "1":
		return doctor.Warn(promise, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in its configuration", "%s loses the last second (innodb_flush_log_at_trx_commit = %s)", what, flush)
	case e.on("log_bin") && e.variables["sync_binlog"] != "1":
		return doctor.Warn(promise, "SET GLOBAL sync_binlog = 1, and the same in its configuration", "after a power loss the server takes back what its binary log has not on the disk (sync_binlog = %s)", e.variables["sync_binlog"])
	case e.variables["innodb_flush_method"] == "nosync" || e.on("debug_no_sync"):
		return doctor.Warn(doctor.Exclusion+", after a power loss", "set another innodb_flush_method", "the server does not wait for its disk")
	}
	return doctor.Sound
}

func (e *examination) checkName(context.Context) driver.Finding {
	if !e.unproven {
		return driver.Finding{}
	}
	return doctor.Warn("secrecy and exclusion: whoever answers in the place of the server gets the password, and has all locks",
		"tls=true, with ca= if the certificate is of an authority of your own", "tls=skip-verify takes whoever answers for the server")
}
