package mysqllock

import (
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
	layout     database.Layout
	user, base string
	variables  map[string]string // of the server
	fit        bool              // tables and procedures are there, and of who may have made them
}

// Check is called for interlock doctor, and for programs that ask whether their backend is fit.
func (s *store) Check(ctx context.Context) []driver.Finding {
	e := &examination{store: s, layout: layoutOf(s.prefix), variables: map[string]string{}}
	err := e.meet(ctx)
	checks := []doctor.Check{{"server", "it answers", func(context.Context) driver.Finding { return doctor.Exchanges(database.Explain(err), e.remedy) }}}
	if err == nil {
		checks = append(checks, []doctor.Check{
			{"version", "as new as locks need", e.checkVersion},
			{"tables", "they fit this program", e.checkTables},
			{"procedures", "they were made by this user", e.checkProcedures},
			{"exchanges", "locks and values can be used", e.checkExchanges},
			{"waking", "those that wait can be woken", e.checkWaking},
			{"power", "what the server has confirmed is on its disk", e.checkPower},
			{"cluster", "not a node of a Galera cluster", e.checkCluster},
			{"clock", "it agrees with that of this machine", e.checkClock},
			{"server's name", "it is proven", e.checkName},
		}...)
	}
	return doctor.Examine(ctx, checks)
}

// meet reads who the user is, and the settings of the server, over a connection for which no rights may be missing.
func (e *examination) meet(ctx context.Context) error {
	return e.aside(ctx, func(c *sql.Conn) error {
		if err := c.QueryRowContext(ctx, "SELECT CURRENT_USER(), DATABASE()").Scan(&e.user, &e.base); err != nil {
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
}

func (e *examination) on(name string) bool {
	return e.variables[name] == "ON" || e.variables[name] == "1"
}

// remedy says what to do about an error of the server; "" if the error names the reason.
func (e *examination) remedy(err error) string {
	switch {
	case err == nil:
		return ""
	case !database.Answered(err):
		return "see that the server runs, and that the URL names it"
	case errors.Is(err, database.ErrReadOnly):
		return "name the primary in the URL, too"
	case database.Number(err, 1045, 1698):
		return "correct user and password of the URL, or CREATE USER, or ALTER USER … IDENTIFIED BY …"
	case database.Number(err, 1049):
		return "name another database in the URL, or CREATE DATABASE"
	case database.Number(err, 1044) || database.Denied(err):
		user := e.user
		if user == "" {
			user = "USER" // the error names it
		}
		granted := "interlock admin schema --only-grants --grant " + user + " prints what grants all that is needed"
		if e.fit {
			return granted
		}
		return "interlock admin schema --grant " + user + " prints what makes the tables and grants all that is needed; if they are there already, " + granted
	}
	return ""
}

func (e *examination) checkVersion(context.Context) driver.Finding {
	text := e.variables["version"]
	var major, minor int
	_, _ = fmt.Sscanf(text, "%d.%d", &major, &minor)
	if maria := strings.Contains(text, "MariaDB"); maria && (major < 10 || major == 10 && minor < 6) || !maria && major < 8 {
		return doctor.Warn(doctor.EveryLock, "use MariaDB 10.6 or MySQL 8.0, or a later one", "version %s is older than what this was written for", text)
	}
	return doctor.Sound
}

func (e *examination) checkTables(ctx context.Context) driver.Finding {
	var found int
	var engine string
	err := e.aside(ctx, func(c *sql.Conn) (err error) {
		if found, err = e.layout.Found(ctx, c); err != nil {
			return err
		}
		return c.QueryRowContext(ctx, "SELECT COALESCE(GROUP_CONCAT(table_name), '') FROM information_schema.tables WHERE table_schema = DATABASE() AND engine <> 'InnoDB' AND table_name IN (?,?,?,?)",
			e.prefix+"queues", e.prefix+"tickets", e.prefix+"sessions", e.prefix+"cells").Scan(&engine)
	})
	switch {
	case database.Missing(err) || errors.Is(err, sql.ErrNoRows):
		return doctor.Fail(doctor.EveryLock, "have somebody who may make them run what interlock admin schema --grant "+e.user+" prints; or open the URL as a user who may (CREATE, CREATE ROUTINE)", "%v", err)
	case err != nil && found > e.layout.Version:
		return doctor.Fail(doctor.EveryLock, "use another table_prefix= in the URL, or a newer version of this program", "%v", err)
	case err != nil && found != 0 && found != e.layout.Version:
		return doctor.Fail(doctor.EveryLock, "use another table_prefix= in the URL, or drop the tables while nobody uses them", "%v", err)
	case err != nil:
		return doctor.Exchanges(database.Explain(err), e.remedy)
	case engine != "":
		return doctor.Fail(doctor.Exclusion, "ALTER TABLE … ENGINE=InnoDB", "tables without transactions: %s", engine)
	}
	return doctor.Sound
}

// checkProcedures is about who has made them: they run with the rights of this user.
func (e *examination) checkProcedures(ctx context.Context) driver.Finding {
	const promise = "what runs with the rights of this user: whoever may make procedures could be there first, with others"
	var m database.Makers
	err := e.aside(ctx, func(c *sql.Conn) (err error) {
		if m, err = e.layout.Makers(ctx, c); err == nil {
			e.fit, err = e.layout.Made(ctx, c)
		}
		return err
	})
	switch others := m.Others(); {
	case driver.IsPermanent(err) && len(others) > 0:
		return doctor.Fail(promise, "ask who made it, and why; "+e.remedyForExecute(), "%v", err)
	case err != nil:
		return driver.Finding{} // see the tables
	case !e.fit && len(m.Missing) > 0:
		return doctor.Fail(doctor.EveryLock, "interlock admin schema --grant "+e.user+" prints what makes them; "+e.remedyForExecute(), "not there, or not for this user: %s", strings.Join(m.Missing, ", "))
	case len(others) > 0:
		return doctor.Warn(promise, "if "+others[0]+" was not to make them, drop them, and have the right user make them", "they were made by %s, who is not this user (%s)", others[0], m.Me)
	}
	return doctor.Sound
}

// remedyForExecute is for procedures that the server hides from who may not execute them.
func (e *examination) remedyForExecute() string {
	return "interlock admin schema --only-grants --grant " + e.user + " prints what lets this user execute them (EXECUTE)"
}

// checkExchanges calls nothing that a stranger may have made.
func (e *examination) checkExchanges(ctx context.Context) driver.Finding {
	switch {
	case e.on("read_only") || e.on("innodb_read_only") || e.on("super_read_only"):
		return doctor.Fail(doctor.EveryLock, "name the primary in the URL", "the server is read-only")
	case !e.fit:
		return driver.Finding{}
	}
	f := doctor.Exchanges(doctor.Try(ctx, e.store, exchange.NewMailbox(), "doctor/"+exchange.NewID()+"/value"), e.remedy)
	if f != doctor.Sound {
		return f
	}
	return doctor.Listing(ctx, e.store, e.remedy)
}

// checkWaking has one connection wake another one, as a grant does.
func (e *examination) checkWaking(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var id, seen sql.NullInt64
	conn, err := e.db.Conn(ctx)
	if err == nil {
		defer database.Discard(conn)
		name := "interlock_doctor_" + exchange.NewID()
		if err = conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), GET_LOCK(?, 0)", name).Scan(&id, new(sql.NullInt64)); err == nil {
			err = e.aside(ctx, func(c *sql.Conn) error {
				if err := c.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&seen); err != nil {
					return err
				}
				if seen != id {
					return errors.New("a lock that one connection has is not seen by another: is there a proxy that spreads statements?")
				}
				_, err := c.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id.Int64))
				return err
			})
		}
	}
	if err != nil {
		return doctor.Warn("waiters are woken as soon as a lock is free: they look again and again", "use a connection to one server, and the same user for all clients", "%v", err)
	}
	return doctor.Sound
}

// checkPower is about what a server forgets that has confirmed it.
func (e *examination) checkPower(context.Context) driver.Finding {
	const promise = "after a crash nothing is granted for the longest TTL; and leases of a fixed time, values and latches of the last second are forgotten"
	flush := e.variables["innodb_flush_log_at_trx_commit"]
	switch {
	case flush == "0":
		return doctor.Warn(promise, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in its configuration", "a crash of the server loses the last second (innodb_flush_log_at_trx_commit = 0)")
	case flush == "2" || flush == "3":
		return doctor.Warn(promise, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in its configuration", "a power loss loses the last second (innodb_flush_log_at_trx_commit = %s)", flush)
	case e.on("log_bin") && e.variables["sync_binlog"] != "1":
		return doctor.Warn(promise, "SET GLOBAL sync_binlog = 1, and the same in its configuration", "after a power loss the server takes back what its binary log has not on the disk (sync_binlog = %s)", e.variables["sync_binlog"])
	case e.variables["innodb_flush_method"] == "nosync" || e.on("debug_no_sync"):
		return doctor.Warn(doctor.Exclusion+", after a power loss", "set another innodb_flush_method", "the server does not wait for its disk")
	}
	return doctor.Sound
}

func (e *examination) checkCluster(context.Context) driver.Finding {
	switch {
	case e.on("wsrep_on") && !e.oneNode:
		return doctor.Fail(doctor.Exclusion+", if clients used several nodes at once: it is refused", "send all clients to this node, and add galera=one-node to every URL", "a node of a Galera cluster (wsrep_on)")
	case e.on("wsrep_on"):
		return doctor.Warn(doctor.Exclusion, "see that all clients use this node, and another one only when it has failed: a proxy with one writer does that",
			"a node of a Galera cluster (wsrep_on), said to be the only one that clients use (galera=one-node)")
	}
	return doctor.Sound
}

func (e *examination) checkClock(ctx context.Context) driver.Finding {
	var at int64
	began := time.Now()
	if err := e.aside(ctx, func(c *sql.Conn) error {
		began = time.Now()
		return c.QueryRowContext(ctx, "SELECT "+database.Clock).Scan(&at)
	}); err != nil {
		return doctor.Unknown(doctor.Exclusion, err)
	}
	return doctor.Clock(doctor.Ahead(time.UnixMicro(at), began, time.Now()))
}

func (e *examination) checkName(context.Context) driver.Finding {
	if !e.unproven {
		return driver.Finding{}
	}
	return doctor.Warn("secrecy and exclusion: whoever answers in the place of the server gets the password, and has all locks",
		"tls=true, with ca= if the certificate is of an authority of your own", "tls=skip-verify takes whoever answers for the server")
}
