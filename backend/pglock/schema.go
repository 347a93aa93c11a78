package pglock

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
)

//go:embed schema.sql
var tables string

//go:embed functions.sql
var functions string

// version is that of the tables and functions. A database with another one is
// refused.
const version = 3

// Schema says where the tables are, and of what kind.
type Schema struct {
	Name   string // of the schema; "interlock" if empty
	Prefix string // of the names of all tables and functions

	// Logged has PostgreSQL write locks to its log, and wait for the disk with each
	// grant and release. Without it they are in unlogged tables, which are several times as fast,
	// and which a crash of the server empties: then nothing is granted for the
	// longest TTL that was ever asked for, so that nobody holds a lock twice.
	// Values and leases of a fixed time are always logged.
	Logged bool

	// Owner is a role whose schema, tables and functions are used although it is none that is
	// trusted anyway: the user and the roles that it is a member of, the owner of the database,
	// and superusers.
	Owner string
}

const defaultSchema = "interlock"

// plain is what names may be made of, so that they mean the same in quotes and
// without, in identifiers and in texts.
var plain = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

const (
	maxSchema = 63
	maxPrefix = 40 // leaves room for the names of indexes
)

func (s *Schema) check() error {
	if s.Name == "" {
		s.Name = defaultSchema
	}
	switch {
	case !plain.MatchString(s.Name) || len(s.Name) > maxSchema:
		return driver.Invalid(fmt.Errorf("postgres: schema: up to %d of a to z, 0 to 9 and _ are allowed, no digit first", maxSchema))
	case s.Prefix != "" && !plain.MatchString(s.Prefix) || len(s.Prefix) > maxPrefix:
		return driver.Invalid(fmt.Errorf("postgres: table_prefix: up to %d of a to z, 0 to 9 and _ are allowed, no digit first", maxPrefix))
	}
	return nil
}

// SQL is what makes the schema with its tables and functions, to be run once, by a
// user who may, in one transaction. The roles named, none or more, are given the
// rights that programs need.
func (s Schema) SQL(roles ...string) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS \"%s\";\n", s.Name)
	b.WriteString(s.body())
	grants, err := s.Grants(roles...)
	return b.String() + grants, err
}

// body is SQL without the schema itself.
func (s Schema) body() string { return s.expand(tables + "\n" + functions) }

// Grants is what gives further roles the rights that programs need, once the tables are there.
func (s Schema) Grants(roles ...string) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, role := range roles {
		b.WriteString(s.grants(role))
	}
	return b.String(), nil
}

// grants gives a role what it needs: the rights to use what is there. Functions may be used
// by everybody, unless somebody has taken that back.
func (s Schema) grants(role string) string {
	who := database.Quoted(role)
	var b strings.Builder
	fmt.Fprintf(&b, "GRANT USAGE ON SCHEMA \"%s\" TO %s;\n", s.Name, who)
	for _, t := range tableNames() {
		fmt.Fprintf(&b, "GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s;\n", s.name(t), who)
	}
	for _, f := range functionNames() {
		fmt.Fprintf(&b, "GRANT EXECUTE ON FUNCTION %s TO %s;\n", s.name(f), who)
	}
	return b.String()
}

func namesIn(pattern *regexp.Regexp, sql string) (names []string) {
	for _, m := range pattern.FindAllStringSubmatch(sql, -1) {
		names = append(names, m[1])
	}
	return names
}

// layout is what has to be there.
func (c *config) layout() database.Layout {
	s := c.schema
	return database.Layout{
		Schema: s.Name, Prefix: s.Prefix, Owner: s.Owner, Kind: c.kind, Version: version,
		Tables: s.all(tableNames()), Functions: s.all(functionNames()),
	}
}

// all are names of tables, or functions, as they are in the schema.
func (s Schema) all(names []string) []string {
	names = slices.Clone(names)
	for i, name := range names {
		names[i] = s.Prefix + name
	}
	return names
}

var (
	tableNames    = sync.OnceValue(func() []string { return namesIn(tableName, tables) })
	functionNames = sync.OnceValue(func() []string { return namesIn(functionName, functions) })
)

var (
	tableName    = regexp.MustCompile(`CREATE (?:LOCKING )?TABLE @(\w+)`)
	functionName = regexp.MustCompile(`CREATE FUNCTION @(\w+)`)
	reference    = regexp.MustCompile(`@(\w+)`)
)

// name is a table or function, for SQL.
func (s Schema) name(of string) string { return database.Name(s.Name, s.Prefix, of) }

const (
	// path is the search path of each function: else one of a stranger could be called in the
	// place of the server's own, with the rights of the caller.
	path = `search_path = pg_catalog, pg_temp`

	// A plan that was made while a table was small reads all of it when it is large.
	// Without such plans there is nothing to choose, and nothing to be gained by making
	// new ones for the arguments of each call, as every connection does at first. Costs
	// that are meant to deter would start a compiler.
	plans = `SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET jit = off`

	// next is the next number of a queue: one that follows the clock, so that what a
	// failover has lost is overtaken. Tokens within 2^32 of the largest one are counted only.
	next = `greatest(Q.last + 1, least(now / 10, 2251795518717952 - Q.offset))`

	// statementUS is when a statement began, in microseconds: the same wherever the statement asks.
	statementUS = `(date_part('epoch', statement_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint`

	durable = `IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true); END IF; ` +
		`IF current_setting('client_min_messages') = 'error' THEN PERFORM set_config('client_min_messages', 'warning', true); END IF;`
)

var now = regexp.MustCompile(`\bnow\b`)

// short is the statement of a function that begins like this, for a client that makes it without the function, which
// costs the server half as much again. The parameters are named with their types.
func (s Schema) short(begin, returning string, params ...string) string {
	_, sql, _ := strings.Cut(functions, begin)
	sql = begin + sql[:strings.Index(sql, "- now > 0)")] + "- now > 0) RETURNING " + returning
	for i, p := range params {
		name, of, _ := strings.Cut(p, " ")
		sql = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(sql, "$"+strconv.Itoa(i+1)+"::"+of)
	}
	sql = strings.ReplaceAll(sql, "NEXT(r)", strings.ReplaceAll(next, "Q", "r"))
	return s.expand(now.ReplaceAllLiteralString(sql, statementUS))
}

// expand fills in what stands for something else in the SQL of this package.
func (s Schema) expand(sql string) string {
	locking, unlogged, committed := "UNLOGGED ", "true", ""
	if s.Logged {
		locking, unlogged, committed = "", "false", durable
	}
	sql = reference.ReplaceAllStringFunc(sql, func(ref string) string { return s.name(ref[1:]) })
	return strings.NewReplacer(
		"UNLOGGED?", unlogged, "LOCKING TABLE", locking+"TABLE",
		"NOW_US", database.NowUS, " PLANS AS $$", " "+plans+" SET "+path+" AS $$", " AS $$", " SET "+path+" AS $$",
		"FOREVER", "9223372036854775807",
		"NEXT(q)", strings.ReplaceAll(next, "Q", "q"), "NEXT(r)", strings.ReplaceAll(next, "Q", "r"),
		"\tDURABLE\n", "\t"+durable+"\n", "\tCOMMITTED\n", lineIf(committed),
	).Replace(sql)
}

func lineIf(text string) string {
	if text == "" {
		return ""
	}
	return "\t" + text + "\n"
}
