package mysqllock

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

const (
	everyLock = "every lock: none can be acquired or renewed"
	exclusion = "exclusion: two could hold one lock"
	waking    = "speed: waiters are woken as soon as a lock is free"
	speed     = "speed"
)

// examine is for a URL that open refuses. A store that was not opened can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	s, at, err := storeOf(u)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.db.PingContext(ctx); err != nil && !answered(err) {
		return nil, fmt.Errorf("mysql: %s: %w", at, s.Explain(err))
	}
	return s.Check(ctx), nil
}

// Check examines the server, and what of it this user may use.
func (s *store) Check(ctx context.Context) []driver.Finding {
	began := time.Now()
	v, err := s.variables(ctx)
	if err != nil {
		return []driver.Finding{doctor.Of("server", s.unreachable(err))}
	}
	all := []driver.Finding{doctor.Of("server", doctor.Trip(time.Since(began)))}
	for _, c := range []struct {
		name string
		of   func(context.Context, variables) driver.Finding
	}{
		{"version", checkVersion},
		{"tables", s.checkTables},
		{"procedures", s.checkProcedures},
		{"rights", s.checkRights},
		{"writing", s.checkWriting},
		{"power", checkPower},
		{"cluster", s.checkCluster},
		{"waking", s.checkWaking},
		{"connections", s.checkConnections},
		{"clock", s.checkClock},
	} {
		all = append(all, doctor.Of(c.name, c.of(ctx, v)))
	}
	if s.unproven {
		all = append(all, doctor.Of("server's name", doctor.Warn("secrecy and exclusion: whoever answers in the place of the server gets the password, and has all locks",
			"tls=true, with ca= if the certificate is of an authority of your own", "tls=skip-verify takes whoever answers for the server")))
	}
	return all
}

// answered reports whether an error is the word of a server.
func answered(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) || errors.Is(err, errReadOnly)
}

// accused is where a server names the user to whom it refuses a database.
var accused = regexp.MustCompile(`user '([^']*)'@'([^']*)' to database '([^']*)'`)

// unreachable is the finding that the server cannot be asked for anything.
func (s *store) unreachable(err error) driver.Finding {
	remedy := "see the error: it names the reason"
	switch m := accused.FindStringSubmatch(err.Error()); {
	case !answered(err):
		remedy = "see that the server runs, and that the URL names it"
	case errors.Is(err, errReadOnly):
		remedy = "name the primary in the URL, too"
	case number(err, 1045, 1698):
		remedy = "correct user and password of the URL, or CREATE USER, or ALTER USER … IDENTIFIED BY …"
	case number(err, 1044) && m != nil:
		remedy = "GRANT " + allRights + " ON " + everything(m[3]) + " TO " + account(m[1]+"@"+m[2]) + " (" + printed(m[1]+"@"+m[2]) + ")"
	case number(err, 1049):
		remedy = "name another database in the URL, or CREATE DATABASE"
	}
	return doctor.Fail(everyLock, remedy, "%v", s.Explain(err))
}

// aside makes an exchange that has nothing to do with what is in the tables: the connection is
// not greeted, for which rights may be missing.
func (s *store) aside(ctx context.Context, f func(*sql.Conn) error) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

// askAside makes one that answers with one row.
func (s *store) askAside(ctx context.Context, text string, args []any, into ...any) error {
	return s.aside(ctx, func(c *sql.Conn) error { return c.QueryRowContext(ctx, s.sql(text), args...).Scan(into...) })
}

// variables are settings of the server, by their names in lower case.
type variables map[string]string

func (v variables) on(name string) bool { return v[name] == "ON" || v[name] == "1" }

func (v variables) readOnly() bool {
	return v.on("read_only") || v.on("innodb_read_only") || v.on("super_read_only")
}

func (s *store) variables(ctx context.Context) (v variables, err error) {
	v = variables{}
	err = s.aside(ctx, func(c *sql.Conn) error {
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
			v[strings.ToLower(name)] = value
		}
		return rows.Err()
	})
	return v, err
}

func checkVersion(_ context.Context, v variables) driver.Finding {
	text := v["version"]
	var major, minor int
	_, _ = fmt.Sscanf(text, "%d.%d", &major, &minor)
	maria := strings.Contains(text, "MariaDB")
	switch {
	case maria && (major < 10 || major == 10 && minor < 6), !maria && major < 8:
		return doctor.Warn(everyLock, "use MariaDB 10.6 or MySQL 8.0, or a later one", "version %s is older than what this was written for", text)
	}
	return doctor.Fine("version %s (tested with MariaDB 10.11 and MySQL 9.7)", text)
}

func (s *store) checkTables(ctx context.Context, _ variables) driver.Finding {
	var found int
	err := s.aside(ctx, func(c *sql.Conn) (err error) {
		found, err = s.layout(ctx, c)
		return err
	})
	switch {
	case missing(err) || errors.Is(err, sql.ErrNoRows):
		return s.absent(ctx, err)
	case denied(err):
		return doctor.Warn(everyLock, "see the rights", "whether they are there, and are fit for this program, is not known: %v", err)
	case err != nil && found > layout:
		return doctor.Fail(everyLock, "use another table_prefix= in the URL, or a newer version of this program", "%v", err)
	case err != nil && found != 0:
		return doctor.Fail(everyLock, "use another table_prefix= in the URL, or drop the tables while nobody uses them", "%v", err)
	case err != nil:
		return doctor.Fail(everyLock, "see the error", "%v", s.Explain(err))
	}
	var engine string
	err = s.askAside(ctx, "SELECT COALESCE(GROUP_CONCAT(table_name), '') FROM information_schema.tables WHERE table_schema = DATABASE() AND engine <> 'InnoDB' AND table_name IN (?,?,?,?)",
		[]any{s.prefix + "queues", s.prefix + "tickets", s.prefix + "sessions", s.prefix + "cells"}, &engine)
	switch {
	case err != nil:
		return doctor.Warn(exclusion, "see the error", "what the tables are made of is not known: %v", err)
	case engine != "":
		return doctor.Fail(exclusion, "ALTER TABLE … ENGINE=InnoDB", "tables without transactions: %s", engine)
	}
	return doctor.Fine("the tables %s* are there", s.prefix)
}

// checkProcedures is about who has made them: they run with the rights of this user.
func (s *store) checkProcedures(ctx context.Context, _ variables) driver.Finding {
	const promise = "what runs with the rights of this user: whoever may make procedures could be there first, with others"
	var m makers
	var done bool
	err := s.aside(ctx, func(c *sql.Conn) (err error) {
		if m, err = s.makers(ctx, c); err == nil {
			done, err = s.made(ctx, c)
		}
		return err
	})
	switch others := m.others(); {
	case driver.IsPermanent(err) && len(others) > 0:
		return doctor.Fail(promise, "ask who made it, and why", "%v", err)
	case err != nil:
		return doctor.Warn(promise, "see the error, and the other checks", "who has made them is not known: %v", err)
	case !done && len(m.missing) > 0:
		return s.absent(ctx, fmt.Errorf("not there, or not for this user: %s", strings.Join(m.missing, ", ")))
	case len(others) > 0:
		return doctor.Warn(promise, "if "+others[0]+" was not to make them, drop them, and have the right user make them", "they were made by %s, who is not this user (%s)", others[0], m.me)
	}
	return doctor.Fine("they were made by this user, %s", m.me)
}

// absent is the finding that tables or procedures are still to be made.
func (s *store) absent(ctx context.Context, err error) driver.Finding {
	var user, database string
	if err := s.askAside(ctx, "SELECT CURRENT_USER(), DATABASE()", nil, &user, &database); err != nil {
		return doctor.Fail(everyLock, "see the error", "%v", err)
	}
	return doctor.Fail(everyLock, "have somebody who may make them run what interlock schema --grant "+user+" prints; or GRANT CREATE, CREATE ROUTINE, "+
		allRights+" ON "+everything(database)+" TO "+account(user)+", and open the URL again", "%v", err)
}

// checkWriting changes a cell that nobody uses.
func (s *store) checkWriting(ctx context.Context, v variables) driver.Finding {
	if v.readOnly() {
		return doctor.Fail(everyLock, "name the primary in the URL", "the server is read-only")
	}
	if err := s.aside(ctx, func(c *sql.Conn) error {
		if done, err := s.made(ctx, c); done || err != nil {
			return err
		}
		return errors.New("something is missing")
	}); err != nil {
		return doctor.Fail(everyLock, "see the other checks", "not tried: %v", err)
	}
	_, err := s.Swap(ctx, driver.Swap{ID: strings.Repeat("0", 32), Name: "interlock/doctor/value", Version: driver.MaxToken})
	if err != nil && err != driver.ErrConflict { // which is written, too
		return doctor.Fail(everyLock, "see the error, and the other checks", "%v", s.Explain(err))
	}
	return doctor.Fine("this user may change the tables")
}

// checkPower is about what a server forgets that has confirmed it.
func checkPower(_ context.Context, v variables) driver.Finding {
	promise := "speed: after a crash nothing is granted for the longest TTL; and leases of a fixed time, values and latches of the last second are forgotten"
	switch v["innodb_flush_log_at_trx_commit"] {
	case "0":
		return doctor.Warn(promise, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in its configuration", "a crash of the server loses the last second (innodb_flush_log_at_trx_commit = 0)")
	case "2", "3":
		return doctor.Warn(promise, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in its configuration",
			"a power loss loses the last second (innodb_flush_log_at_trx_commit = %s)", v["innodb_flush_log_at_trx_commit"])
	}
	if v.on("log_bin") && v["sync_binlog"] != "1" {
		return doctor.Warn(promise, "SET GLOBAL sync_binlog = 1, and the same in its configuration",
			"after a power loss the server takes back what its binary log has not on the disk (sync_binlog = %s)", v["sync_binlog"])
	}
	promise = exclusion + ", after a power loss"
	if m := v["innodb_flush_method"]; m == "nosync" || v.on("debug_no_sync") {
		return doctor.Warn(promise, "set another innodb_flush_method", "the server does not wait for its disk (%s)", m)
	}
	return doctor.Fine("what the server has confirmed is on its disk")
}

func (s *store) checkCluster(_ context.Context, v variables) driver.Finding {
	if v.on("wsrep_on") && !s.oneNode {
		return doctor.Fail(exclusion+", if clients used several nodes at once: it is refused", "send all clients to this node, and add galera=one-node to every URL",
			"a node of a Galera cluster (wsrep_on)")
	}
	if v.on("wsrep_on") {
		return doctor.Warn(exclusion, "see that all clients use this node, and another one only when it has failed: a proxy with one writer does that",
			"a node of a Galera cluster (wsrep_on), said to be the only one that clients use (galera=one-node)")
	}
	return doctor.Fine("not a node of a Galera cluster")
}

// checkWaking rings a bell of its own.
func (s *store) checkWaking(ctx context.Context, _ variables) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return doctor.Warn(waking, "see the error", "%v", err)
	}
	defer discard(conn)
	name := "interlock_doctor_" + rand.Text()
	var id, ok sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), GET_LOCK(?, 0)", name).Scan(&id, &ok); err != nil {
		return doctor.Warn(waking, "see the error: without GET_LOCK waiters look again and again", "%v", err)
	}
	var seen sql.NullInt64
	if err := s.askAside(ctx, "SELECT IS_USED_LOCK(?)", []any{name}, &seen); err != nil || seen != id {
		return doctor.Warn(waking, "use a connection to one server, without a proxy that spreads statements",
			"a lock that one connection has is not seen by another (%v)", err)
	}
	if err := s.aside(ctx, func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, "KILL QUERY "+strconv.FormatInt(id.Int64, 10))
		return err
	}); err != nil {
		return doctor.Warn(waking, "let all clients use the same user", "the statement of another connection may not be ended: %v", err)
	}
	return doctor.Fine("those that wait can be woken")
}

func (s *store) checkConnections(ctx context.Context, v variables) driver.Finding {
	most := s.db.Stats().MaxOpenConnections
	if !s.own && most > 0 && most < 4 {
		return doctor.Warn(waking, "SetMaxOpenConns(4) or more", "the pool has %d connections, of which two would wait", most)
	}
	var name string
	var used int
	if err := s.askAside(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'", nil, &name, &used); err != nil {
		return doctor.Warn(everyLock, "see the error", "%v", err)
	}
	limit, _ := strconv.Atoi(v["max_connections"])
	if limit > 0 && used*10 > limit*9 {
		return doctor.Warn(everyLock, "raise max_connections", "%d of %d connections of the server are used", used, limit)
	}
	return doctor.Fine("%d of %d connections of the server are used", used, limit)
}

// checkClock compares the server's clock with that of this machine.
func (s *store) checkClock(ctx context.Context, _ variables) driver.Finding {
	began := time.Now()
	at, err := s.Clock(ctx)
	if err != nil {
		return doctor.Warn(speed, "see the error", "%v", err)
	}
	off, wrong := doctor.Ahead(time.UnixMicro(at), began, time.Now())
	if off.Abs()-wrong > time.Second {
		return doctor.Warn("when leases end: the server's clock must not be set forward while leases run", "let both machines follow the same time servers",
			"the server's clock differs from this machine's by %v ± %v", doctor.Short(off), doctor.Short(wrong))
	}
	return doctor.Fine("the server's clock differs from this machine's by %v ± %v", doctor.Short(off), doctor.Short(wrong))
}
