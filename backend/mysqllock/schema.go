package mysqllock

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// layout is the version of tables and procedures. It is in the names of procedures,
// so that no client calls procedures of another one.
const layout = 5

// counted is the token from which on tokens are counted, and do not follow the clock: the
// last 2^32 would be used up by it within hours.
const counted = driver.MaxToken - 1<<32

// gates is how many rows there are for those who come, and for those who give up.
const gates = 64

func allGates() string {
	all := make([]string, 2*gates)
	for n := range all {
		all[n] = fmt.Sprintf("(%d)", n)
	}
	return strings.Join(all, ", ")
}

// most bounds what one exchange grants or removes.
const most = 100

// defaultTTL is for how long an evicted ticket whose session is gone may go on.
const defaultTTL = 15 * time.Second

//go:embed sql/*.sql
var texts embed.FS

// DefaultTablePrefix is what the names of tables and procedures begin with.
const DefaultTablePrefix = "interlock_"

var wellNamed = regexp.MustCompile(`^[0-9A-Za-z_$]*$`)

func checkPrefix(prefix string) error {
	if !wellNamed.MatchString(prefix) || len(prefix) > 32 {
		return driver.Invalid(errors.New("mysql: table_prefix is not made of at most 32 letters, digits and _"))
	}
	return nil
}

// Schema returns the statements that make the tables and procedures, which a client
// executes by itself if it may and if they are not there. Each is to be sent alone;
// the delimiter of people's clients is not part of them.
func Schema(prefix string) ([]string, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	return statements(prefix, append(before, last)...), nil
}

// The files of statements, in their order.
var before = []string{"tables", "inner", "join", "leave", "change", "session"}

const last = "last"

// neutral are the statements of each file, with {p} in the place of the prefix. They are the same
// for all clients of a program.
var neutral = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, name := range append(before, last) {
		text, err := texts.ReadFile("sql/" + name + ".sql")
		if err != nil {
			panic(err) // it is part of the program
		}
		all[name] = split(expand(string(text), "{p}"))
	}
	return all
})

func statements(prefix string, files ...string) (all []string) {
	for _, name := range files {
		for _, text := range neutral()[name] {
			all = append(all, strings.ReplaceAll(text, "{p}", prefix))
		}
	}
	return all
}

// Script is Schema for the command line client of the server. The users named, none or
// more, each as user or user@host, are given the rights that programs need.
func Script(prefix string, users ...string) (string, error) {
	all, err := Schema(prefix)
	if err != nil {
		return "", err
	}
	grants, err := Grants(prefix, users...)
	if err != nil {
		return "", err
	}
	return "DELIMITER //\n\n" + strings.Join(all, "\n//\n\n") + "\n//\n\nDELIMITER ;\n" + grants, nil
}

// Grants is what gives further users, as of Script, the rights that programs need, once the
// tables are there.
func Grants(prefix string, users ...string) (string, error) {
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	rights := map[string]string{database.Table: "SELECT, INSERT, UPDATE, DELETE ON ", database.Procedure: "EXECUTE ON PROCEDURE "}
	var b strings.Builder
	for _, user := range users {
		for _, of := range layoutOf(prefix).Objects {
			fmt.Fprintf(&b, "GRANT %s%s TO %s;\n", rights[of.Kind], of.Name, database.Account(user))
		}
	}
	return b.String(), nil
}

// made is where a table, with its first column, or a procedure is made.
var made = regexp.MustCompile(`(?m)^CREATE (TABLE|PROCEDURE) (?:IF NOT EXISTS )?\{p\}(\w+)\(\s*(\w*)`)

// objects are all tables and procedures, by their names without the prefix.
var objects = sync.OnceValue(func() (all []database.Object) {
	for _, file := range append(before, last) {
		for _, m := range made.FindAllStringSubmatch(strings.Join(neutral()[file], "\n"), -1) {
			all = append(all, database.Object{Kind: m[1], Name: m[2], Column: m[3]})
		}
	}
	return all
})

// layoutOf is what has to be there. The prefix was checked.
func layoutOf(prefix string) database.Layout {
	l := database.Layout{Prefix: prefix, Version: layout, Objects: slices.Clone(objects())}
	for i := range l.Objects {
		l.Objects[i].Name = prefix + l.Objects[i].Name
	}
	return l
}

// forgets says whether a server that lost its power may have forgotten what it had
// confirmed: it comes back with what is in its log, and with a binary log with no more than
// is in that.
const forgets = "(@@GLOBAL.innodb_flush_log_at_trx_commit <> 1 OR @@GLOBAL.log_bin AND @@GLOBAL.sync_binlog <> 1)"

// history tells servers apart that replicate from one another: see exchange.Renewal.
const history = "CONCAT_WS(':', @@hostname, @@port, @@server_id)"

// lone is the only ticket of a queue, if its row has it. What a ticket leaves there when it
// leaves alone is not cleared: a row whose columns keep their lengths is changed in place.
const lone = "IF(tickets > 0, id, NULL)"

// parts are what has more to be replaced in it, by constants: also {p} before the name of a
// procedure that is called or created, which begins with more than the prefix.
var parts = strings.NewReplacer(
	"PROCEDURE {p}", "PROCEDURE "+routines("{p}"), "CALL {p}", "CALL "+routines("{p}"),
	"{extend}", extendOne, "{asked}", askedOfOne, "{front}", frontOfOne, "{head}", headOfOne,
	"{next}", "GREATEST(v_last + 1, LEAST(v_now DIV 10, {counted} - v_offset))",
)

var constants = strings.NewReplacer(
	"{now}", database.Clock,
	"{lone}", lone,
	"{forgets}", forgets,
	"{history}", history,
	"{most}", strconv.Itoa(most),
	"{perhear}", strconv.Itoa(perHear),
	"{layout}", strconv.Itoa(layout),
	"{gates}", strconv.Itoa(gates),
	"{allgates}", allGates(),
	"{counted}", strconv.FormatInt(counted, 10),
	"{forever}", strconv.FormatInt(math.MaxInt64, 10),
	"{maxtoken}", strconv.FormatInt(driver.MaxToken, 10),
	"{swapmemory}", strconv.FormatInt((2*driver.SwapMemory).Microseconds(), 10),
	"{defaultttl}", strconv.FormatInt(defaultTTL.Microseconds(), 10),
	"{wanted}", strconv.Itoa(int(driver.Wanted)),
	"{revoke}", strconv.Itoa(int(driver.Revoke)),
	"{evict}", strconv.Itoa(int(driver.Evict)),
	"{force}", strconv.Itoa(int(driver.Force)),
)

func expand(text, prefix string) string {
	return strings.ReplaceAll(constants.Replace(parts.Replace(text)), "{p}", prefix)
}

func routines(prefix string) string { return fmt.Sprintf("%sv%d_", prefix, layout) }

// A statement ends with a semicolon at the end of a line that does not begin with a
// space: what is inside of procedures is indented.
var end = regexp.MustCompile(`(?m)^(END|\).*|[A-Z][^\t\n]*);$`)

func split(text string) []string {
	var all []string
	for {
		at := end.FindStringIndex(text)
		if at == nil {
			return all
		}
		all = append(all, strings.TrimSpace(text[:at[1]-1]))
		text = text[at[1]:]
	}
}

// ready makes sure that tables and procedures are there.
func (s *store) ready(ctx context.Context) error {
	return s.Explain(s.aside(ctx, func(c *sql.Conn) error {
		if done, err := layoutOf(s.prefix).Made(ctx, c); done || err != nil {
			return err
		}
		return s.create(ctx, c)
	}))
}

// create makes what is missing. Clients that start at once do so one after the other.
func (s *store) create(ctx context.Context, conn *sql.Conn) error {
	defer database.Discard(conn)
	var got sql.NullInt64
	lock := "interlock_schema_" + s.prefix
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT(?, LEFT(SHA2(DATABASE(), 256), 12)), 60)", lock[:min(len(lock), 50)]).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errors.New("mysql: another client has been making the tables for a minute")
	}
	if done, err := layoutOf(s.prefix).Made(ctx, conn); done || err != nil {
		return err
	}
	if err := makeAll(ctx, conn, statements(s.prefix, before...)); err != nil {
		return err
	}
	m, err := layoutOf(s.prefix).Makers(ctx, conn)
	if err == nil {
		err = m.Strange(false)
	}
	if err == nil && len(m.Missing) > 0 {
		err = driver.Permanent(fmt.Errorf("mysql: this user may not execute %s (%s)", m.Missing[0], doctor.Hint))
	}
	if err != nil {
		return err
	}
	return makeAll(ctx, conn, statements(s.prefix, last))
}

func makeAll(ctx context.Context, conn *sql.Conn, all []string) error {
	for _, statement := range all {
		// The procedure is there, or there are no tables in memory (Group Replication).
		if _, err := conn.ExecContext(ctx, statement); err != nil && !database.Number(err, 1304, 3161) {
			return fmt.Errorf("%s: %w", strings.SplitN(statement, "(", 2)[0], err)
		}
	}
	return nil
}
