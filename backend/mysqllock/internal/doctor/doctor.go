// Package doctor examines MySQL and MariaDB for whoever asks whether they are fit for locks.
package doctor

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

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

const (
	everyLock = "every lock: none can be acquired or renewed"
	exclusion = "exclusion: two could hold one lock"
	waking    = "speed: waiters are woken as soon as a lock is free"
	speed     = "speed"
)

// Client is what the doctor is told of who uses the database.
type Client struct {
	DB  *sql.DB
	Own bool // DB is the client's own
	// Aside makes an exchange that has nothing to do with what is in the tables: the connection is
	// not greeted, for which rights may be missing.
	Aside  func(context.Context, func(*sql.Conn) error) error
	Swap   func(context.Context, driver.Swap) (driver.Cell, error) // changes a value
	Layout database.Layout

	OneNode  bool // of a Galera cluster, for all clients
	Unproven bool // TLS takes whoever answers for the server
}

// Doctor examines the server, and what of it this user may use.
type Doctor struct {
	Client
	variables variables
}

// New is for a client that is open or was refused.
func New(c Client) *Doctor { return &Doctor{Client: c} }

// Check is called once.
func (d *Doctor) Check(ctx context.Context) []driver.Finding {
	began := time.Now()
	var err error
	if d.variables, err = d.settings(ctx); err != nil {
		return []driver.Finding{doctor.Of("server", unreachable(err))}
	}
	all := []driver.Finding{doctor.Of("server", doctor.Trip(time.Since(began)))}
	return append(all, doctor.Examine(ctx, []doctor.Check{
		{"version", "", d.checkVersion},
		{"tables", "", d.checkTables},
		{"procedures", "", d.checkProcedures},
		{"rights", "", d.checkRights},
		{"writing", "", d.checkWriting},
		{"power", "", d.checkPower},
		{"cluster", "", d.checkCluster},
		{"waking", "", d.checkWaking},
		{"connections", "", d.checkConnections},
		{"clock", "", d.checkClock},
		{"server's name", "", d.checkName},
	})...)
}

// accused is where a server names the user to whom it refuses a database.
var accused = regexp.MustCompile(`user '([^']*)'@'([^']*)' to database '([^']*)'`)

// unreachable is the finding that the server cannot be asked for anything.
func unreachable(err error) driver.Finding {
	remedy := "see the error: it names the reason"
	switch m := accused.FindStringSubmatch(err.Error()); {
	case !database.Answered(err):
		remedy = "see that the server runs, and that the URL names it"
	case errors.Is(err, database.ErrReadOnly):
		remedy = "name the primary in the URL, too"
	case database.Number(err, 1045, 1698):
		remedy = "correct user and password of the URL, or CREATE USER, or ALTER USER … IDENTIFIED BY …"
	case database.Number(err, 1044) && m != nil:
		remedy = "GRANT " + allRights + " ON " + everything(m[3]) + " TO " + database.Account(m[1]+"@"+m[2]) + " (" + printed(m[1]+"@"+m[2]) + ")"
	case database.Number(err, 1049):
		remedy = "name another database in the URL, or CREATE DATABASE"
	}
	return doctor.Fail(everyLock, remedy, "%v", database.Explain(err))
}

// row reads one row.
func (d *Doctor) row(ctx context.Context, text string, args []any, into ...any) error {
	return d.Aside(ctx, func(c *sql.Conn) error { return c.QueryRowContext(ctx, text, args...).Scan(into...) })
}

// variables are settings of the server, by their names in lower case.
type variables map[string]string

func (v variables) on(name string) bool { return v[name] == "ON" || v[name] == "1" }

func (v variables) readOnly() bool {
	return v.on("read_only") || v.on("innodb_read_only") || v.on("super_read_only")
}

// settings reads them all.
func (d *Doctor) settings(ctx context.Context) (v variables, err error) {
	v = variables{}
	err = d.Aside(ctx, func(c *sql.Conn) error {
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

func (d *Doctor) checkVersion(context.Context) driver.Finding {
	text := d.variables["version"]
	var major, minor int
	_, _ = fmt.Sscanf(text, "%d.%d", &major, &minor)
	maria := strings.Contains(text, "MariaDB")
	switch {
	case maria && (major < 10 || major == 10 && minor < 6), !maria && major < 8:
		return doctor.Warn(everyLock, "use MariaDB 10.6 or MySQL 8.0, or a later one", "version %s is older than what this was written for", text)
	}
	return doctor.Fine("version %s (tested with MariaDB 10.11 and MySQL 9.7)", text)
}

func (d *Doctor) checkTables(ctx context.Context) driver.Finding {
	var found int
	err := d.Aside(ctx, func(c *sql.Conn) (err error) {
		found, err = d.Layout.Found(ctx, c)
		return err
	})
	switch {
	case database.Missing(err) || errors.Is(err, sql.ErrNoRows):
		return d.absent(ctx, err)
	case database.Denied(err):
		return doctor.Warn(everyLock, "see the rights", "whether they are there, and are fit for this program, is not known: %v", err)
	case err != nil && found > d.Layout.Version:
		return doctor.Fail(everyLock, "use another table_prefix= in the URL, or a newer version of this program", "%v", err)
	case err != nil && found != 0:
		return doctor.Fail(everyLock, "use another table_prefix= in the URL, or drop the tables while nobody uses them", "%v", err)
	case err != nil:
		return doctor.Fail(everyLock, "see the error", "%v", database.Explain(err))
	}
	var engine string
	err = d.row(ctx, "SELECT COALESCE(GROUP_CONCAT(table_name), '') FROM information_schema.tables WHERE table_schema = DATABASE() AND engine <> 'InnoDB' AND table_name IN (?,?,?,?)",
		[]any{d.Layout.Prefix + "queues", d.Layout.Prefix + "tickets", d.Layout.Prefix + "sessions", d.Layout.Prefix + "cells"}, &engine)
	switch {
	case err != nil:
		return doctor.Warn(exclusion, "see the error", "what the tables are made of is not known: %v", err)
	case engine != "":
		return doctor.Fail(exclusion, "ALTER TABLE … ENGINE=InnoDB", "tables without transactions: %s", engine)
	}
	return doctor.Fine("the tables %s* are there", d.Layout.Prefix)
}

// checkProcedures is about who has made them: they run with the rights of this user.
func (d *Doctor) checkProcedures(ctx context.Context) driver.Finding {
	const promise = "what runs with the rights of this user: whoever may make procedures could be there first, with others"
	var m database.Makers
	var done bool
	err := d.Aside(ctx, func(c *sql.Conn) (err error) {
		if m, err = d.Layout.Makers(ctx, c); err == nil {
			done, err = d.Layout.Made(ctx, c)
		}
		return err
	})
	switch others := m.Others(); {
	case driver.IsPermanent(err) && len(others) > 0:
		return doctor.Fail(promise, "ask who made it, and why", "%v", err)
	case err != nil:
		return doctor.Warn(promise, "see the error, and the other checks", "who has made them is not known: %v", err)
	case !done && len(m.Missing) > 0:
		return d.absent(ctx, fmt.Errorf("not there, or not for this user: %s", strings.Join(m.Missing, ", ")))
	case len(others) > 0:
		return doctor.Warn(promise, "if "+others[0]+" was not to make them, drop them, and have the right user make them", "they were made by %s, who is not this user (%s)", others[0], m.Me)
	}
	return doctor.Fine("they were made by this user, %s", m.Me)
}

// absent is the finding that tables or procedures are still to be made.
func (d *Doctor) absent(ctx context.Context, err error) driver.Finding {
	var user, base string
	if err := d.row(ctx, "SELECT CURRENT_USER(), DATABASE()", nil, &user, &base); err != nil {
		return doctor.Fail(everyLock, "see the error", "%v", err)
	}
	return doctor.Fail(everyLock, "have somebody who may make them run what interlock schema --grant "+user+" prints; or GRANT CREATE, CREATE ROUTINE, "+
		allRights+" ON "+everything(base)+" TO "+database.Account(user)+", and open the URL again", "%v", err)
}

// checkWriting changes a cell that nobody uses.
func (d *Doctor) checkWriting(ctx context.Context) driver.Finding {
	if d.variables.readOnly() {
		return doctor.Fail(everyLock, "name the primary in the URL", "the server is read-only")
	}
	if err := d.Aside(ctx, func(c *sql.Conn) error {
		if done, err := d.Layout.Made(ctx, c); done || err != nil {
			return err
		}
		return errors.New("something is missing")
	}); err != nil {
		return doctor.Fail(everyLock, "see the other checks", "not tried: %v", err)
	}
	_, err := d.Swap(ctx, driver.Swap{ID: strings.Repeat("0", 32), Name: "interlock/doctor/value", Version: driver.MaxToken})
	if err != nil && err != driver.ErrConflict { // which is written, too
		return doctor.Fail(everyLock, "see the error, and the other checks", "%v", database.Explain(err))
	}
	return doctor.Fine("this user may change the tables")
}

// checkPower is about what a server forgets that has confirmed it.
func (d *Doctor) checkPower(context.Context) driver.Finding {
	v, promise := d.variables, "speed: after a crash nothing is granted for the longest TTL; and leases of a fixed time, values and latches of the last second are forgotten"
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

func (d *Doctor) checkCluster(context.Context) driver.Finding {
	if d.variables.on("wsrep_on") && !d.OneNode {
		return doctor.Fail(exclusion+", if clients used several nodes at once: it is refused", "send all clients to this node, and add galera=one-node to every URL",
			"a node of a Galera cluster (wsrep_on)")
	}
	if d.variables.on("wsrep_on") {
		return doctor.Warn(exclusion, "see that all clients use this node, and another one only when it has failed: a proxy with one writer does that",
			"a node of a Galera cluster (wsrep_on), said to be the only one that clients use (galera=one-node)")
	}
	return doctor.Fine("not a node of a Galera cluster")
}

// checkWaking rings a bell of its own.
func (d *Doctor) checkWaking(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := d.DB.Conn(ctx)
	if err != nil {
		return doctor.Warn(waking, "see the error", "%v", err)
	}
	defer database.Discard(conn)
	name := "interlock_doctor_" + rand.Text()
	var id, ok sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), GET_LOCK(?, 0)", name).Scan(&id, &ok); err != nil {
		return doctor.Warn(waking, "see the error: without GET_LOCK waiters look again and again", "%v", err)
	}
	var seen sql.NullInt64
	if err := d.row(ctx, "SELECT IS_USED_LOCK(?)", []any{name}, &seen); err != nil || seen != id {
		return doctor.Warn(waking, "use a connection to one server, without a proxy that spreads statements",
			"a lock that one connection has is not seen by another (%v)", err)
	}
	if err := d.Aside(ctx, func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, "KILL QUERY "+strconv.FormatInt(id.Int64, 10))
		return err
	}); err != nil {
		return doctor.Warn(waking, "let all clients use the same user", "the statement of another connection may not be ended: %v", err)
	}
	return doctor.Fine("those that wait can be woken")
}

func (d *Doctor) checkConnections(ctx context.Context) driver.Finding {
	most := d.DB.Stats().MaxOpenConnections
	if !d.Own && most > 0 && most < 4 {
		return doctor.Warn(waking, "SetMaxOpenConns(4) or more", "the pool has %d connections, of which two would wait", most)
	}
	var name string
	var used int
	if err := d.row(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'", nil, &name, &used); err != nil {
		return doctor.Warn(everyLock, "see the error", "%v", err)
	}
	limit, _ := strconv.Atoi(d.variables["max_connections"])
	if limit > 0 && used*10 > limit*9 {
		return doctor.Warn(everyLock, "raise max_connections", "%d of %d connections of the server are used", used, limit)
	}
	return doctor.Fine("%d of %d connections of the server are used", used, limit)
}

// checkClock compares the server's clock with that of this machine.
func (d *Doctor) checkClock(ctx context.Context) driver.Finding {
	began := time.Now()
	var at int64
	if err := d.row(ctx, "SELECT "+database.Clock, nil, &at); err != nil {
		return doctor.Warn(speed, "see the error", "%v", err)
	}
	off, wrong := doctor.Ahead(time.UnixMicro(at), began, time.Now())
	if off.Abs()-wrong > time.Second {
		return doctor.Warn("when leases end: the server's clock must not be set forward while leases run", "let both machines follow the same time servers",
			"the server's clock differs from this machine's by %v ± %v", doctor.Short(off), doctor.Short(wrong))
	}
	return doctor.Fine("the server's clock differs from this machine's by %v ± %v", doctor.Short(off), doctor.Short(wrong))
}

func (d *Doctor) checkName(context.Context) driver.Finding {
	if !d.Unproven {
		return driver.Finding{}
	}
	return doctor.Warn("secrecy and exclusion: whoever answers in the place of the server gets the password, and has all locks",
		"tls=true, with ca= if the certificate is of an authority of your own", "tls=skip-verify takes whoever answers for the server")
}
