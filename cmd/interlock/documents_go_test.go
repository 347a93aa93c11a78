//go:build linux

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Each block of Go in the documents compiles, and what the page for those who know another library says of this
// one.
func TestTheGoOfTheDocumentsCompiles(t *testing.T) {
	t.Parallel()
	c := newGoCompiler(t)
	for _, page := range pages() {
		text := readDocument(t, "../../"+page)
		for _, s := range snippetsOf(text) {
			if s.language == "go" {
				for _, err := range c.compile(s.text) {
					t.Errorf("%s:%d: %v", page, s.line, err)
				}
			}
		}
		for _, span := range ours(text) {
			if !strings.HasPrefix(span, "interlock ") && strings.ContainsAny(span, "=(") && (strings.Contains(span, ":=") || !strings.Contains(span, "://")) {
				for _, err := range c.compile(span) {
					t.Errorf("%s: %s: %v", page, span, err)
				}
			}
		}
	}
	for code, part := range map[string]string{
		`lease, err := lock.Aquire(ctx)`:                                                                         "lock.Aquire undefined",
		"func f() *interlock.Lock {\n\treturn c.Mutex(42)\n}":                                                    "cannot use 42",
		"import _ \"github.com/interlock-go/interlock/backend/redis\"":                                           "no package",
		"package main\n\nimport \"github.com/interlock-go/interlock\"\n\nvar _ = interlock.Opne\nfunc main() {}": "Opne",
		"a(": "expected",
	} {
		if errs := fmt.Sprint(c.compile(code)); !strings.Contains(errs, part) {
			t.Errorf("%s: %s, want %q", code, errs, part)
		}
	}
}

// The documentation of each module, backend and adapter begins with an example, which compiles.
func TestTheGoOfTheDocumentationCompiles(t *testing.T) {
	t.Parallel()
	c := newGoCompiler(t)
	folders := slices.Concat(errtest.Must(filepath.Glob("../../adapter/*lock"))(t), errtest.Must(filepath.Glob("../../backend/*"))(t))
	for _, used := range regexp.MustCompile(`(?m)^\t\.\S*`).FindAllString(readDocument(t, "../../go.work"), -1) {
		folders = append(folders, filepath.Join("../..", strings.TrimSpace(used)))
	}
	for _, folder := range folders {
		if example, needed := exampleOf(t, folder); needed {
			for _, err := range c.compile(example) {
				t.Errorf("%s: %v:\n%s", folder, err, example)
			}
		}
	}
}

// exampleOf returns the code in the comment of the package in a folder, before the first heading. A folder without a
// package and one with a program need none.
func exampleOf(t *testing.T, folder string) (example string, needed bool) {
	files := errtest.Must(filepath.Glob(folder + "/*.go"))(t)
	for _, file := range files {
		f := errtest.Must(parser.ParseFile(gotoken.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments))(t)
		if f.Name.Name == "main" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		needed = true
		for _, part := range new(comment.Parser).Parse(f.Doc.Text()).Content {
			if _, ends := part.(*comment.Heading); ends {
				break
			}
			if code, ok := part.(*comment.Code); ok {
				return code.Text, true
			}
		}
	}
	if needed {
		t.Errorf("%s: the comment of the package begins without an example", folder)
	}
	return "", false
}

// knownToGo is what the Go of the documents may use without having declared it.
const knownToGo = `package documents

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"
	_ "github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/tus/tusd/v2/pkg/filestore"
	clientv3 "go.etcd.io/etcd/client/v3"
	_ "k8s.io/client-go/tools/leaderelection"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/certmagiclock"
	"github.com/interlock-go/interlock/adapter/clientgolock"
	"github.com/interlock-go/interlock/adapter/cronlock"
	"github.com/interlock-go/interlock/adapter/gocronlock"
	"github.com/interlock-go/interlock/adapter/gooselock"
	"github.com/interlock-go/interlock/adapter/statelock"
	"github.com/interlock-go/interlock/adapter/synclock"
	"github.com/interlock-go/interlock/adapter/tusdlock"
	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/backend/redislock/goredis"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/metrics"
	"github.com/interlock-go/interlock/once"
	"github.com/interlock-go/interlock/otelinterlock"
	"github.com/interlock-go/interlock/rowlock"
	"github.com/interlock-go/interlock/rowlock/pgxrow"
	"github.com/interlock-go/interlock/ui"
)

var (
	etcd     *clientv3.Client
	ctx      context.Context
	c        *interlock.Client
	client   *interlock.Client
	clients  []*interlock.Client
	lock     *interlock.Lock
	lease    *interlock.Lease
	err      error
	id, key  string
	password string
	body     []byte
	version  uint64
	done     chan error
	work     func(context.Context) error
	plusOne  func(int) (int, error)
	tx       *sql.Tx
	tokens   *fence.Table
	rows     *rowlock.Table
	states   http.Handler
	names    *rowlock.Names
	db       *sql.DB
	orders   []string
	ship     func(context.Context, string) error
	sell     func(context.Context, *sql.Tx, int) error
	step     func(context.Context, *sql.DB) (bool, error)
	upgrade  func(context.Context, *sql.DB) error
	message  struct{ Lock, Token string }
	store    exchange.Store
)
`

// elsewhere is what documents use of other modules, as it was in river v0.51, asynq v0.26, gorm v1.31, ent
// v0.14, goose v3.30, golang-migrate v4.20 and CertMagic v0.25. The command does not need them.
var elsewhere = map[string]string{
	"github.com/riverqueue/river": `package river
		import "context"
		type Client[T any] struct{}
		func (*Client[T]) Start(context.Context) error
		func (*Client[T]) Stopped() <-chan struct{}`,
	"github.com/hibiken/asynq": `package asynq
		import "context"
		type Config struct{ BaseContext func() context.Context }
		type Handler interface{}
		type RedisConnOpt interface{}
		type Server struct{}
		func NewServer(RedisConnOpt, Config) *Server
		func (*Server) Start(Handler) error
		func (*Server) Shutdown()`,
	"github.com/caddyserver/certmagic": `package certmagic
		import "context"
		var Default struct{ Storage }
		type Storage interface{ Lock(context.Context, string) error; Unlock(context.Context, string) error }`,
	"github.com/pressly/goose/v3": `package goose
		import ("context"; "database/sql"; "io/fs")
		const DialectPostgres = "postgres"
		type Locker interface{ Lock(context.Context, *sql.DB) error; Unlock(context.Context, *sql.DB) error }
		type Provider struct{}
		func NewProvider(string, *sql.DB, fs.FS, ...func()) (*Provider, error)
		func WithLocker(Locker) func()
		func (*Provider) Up(context.Context) ([]struct{}, error)`,
	"github.com/golang-migrate/migrate/v4": `package migrate
		type Migrate struct{ GracefulStop chan bool }
		func (*Migrate) Up() error
		var ErrNoChange error`,
	"github.com/jackc/pgx/v5/stdlib": `package stdlib
		import ("database/sql"; "github.com/jackc/pgx/v5/pgxpool")
		func OpenDBFromPool(*pgxpool.Pool) *sql.DB`,
	"github.com/lib/pq": `package pq`,
	"gorm.io/gorm": `package gorm
		import ("context"; "database/sql")
		type DB struct{ Error error; Statement struct{ ConnPool interface{} } }
		func (*DB) WithContext(context.Context) *DB
		func (*DB) Transaction(func(*DB) error, ...*sql.TxOptions) error
		func (*DB) Exec(string, ...any) *DB`,
	"entgo.io/ent/dialect": `package dialect
		import "context"
		const Postgres = "postgres"
		type Driver interface{ Tx(context.Context) (Tx, error) }
		type Tx interface{ Driver; Commit() error }
		func NopTx(Driver) Tx`,
	"entgo.io/ent/dialect/sql": `package sql
		import ("context"; "database/sql"; "entgo.io/ent/dialect")
		type Conn struct{ ExecQuerier interface{ ExecContext(context.Context, string, ...any) (sql.Result, error) } }
		type Driver struct{ dialect.Driver }
		func NewDriver(string, Conn) *Driver`,
	"example.com/shop/ent": `package ent
		import ("context"; "entgo.io/ent/dialect")
		type Client struct{ Item *Items }
		type Items struct{}
		func NewClient(...func()) *Client
		func Driver(dialect.Driver) func()
		func (*Items) UpdateOneID(int) *Items
		func (*Items) AddStock(int) *Items
		func (*Items) Exec(context.Context) error`,
}

// goCompiler checks Go against the packages of this tree.
type goCompiler struct {
	set    *gotoken.FileSet
	others types.Importer // of what is used
	known  map[string]bool
	parts  map[string]*types.Package // of what is elsewhere
}

func newGoCompiler(t *testing.T) *goCompiler {
	c := &goCompiler{set: gotoken.NewFileSet(), known: map[string]bool{}, parts: map[string]*types.Package{}}
	known, err := parser.ParseFile(c.set, "", knownToGo, parser.ImportsOnly)
	must(err)
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, i := range known.Imports {
		args = append(args, strings.Trim(i.Path.Value, `"`))
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // as make lint has built them
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
		c.known[path] = true
	}
	c.others = importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

// Import makes it a types.Importer. A package that is only registered needs no more than to be there.
func (c *goCompiler) Import(path string) (*types.Package, error) {
	if c.known[path] {
		return c.others.Import(path)
	}
	if source, ok := elsewhere[path]; ok {
		if c.parts[path] == nil {
			file, err := parser.ParseFile(c.set, path, source, 0)
			must(err)
			c.parts[path], err = (&types.Config{Importer: c, IgnoreFuncBodies: true}).Check(path, c.set, []*ast.File{file}, nil)
			must(err)
		}
		return c.parts[path], nil
	}
	folder, ours := strings.CutPrefix(path, "github.com/interlock-go/interlock/")
	if files, _ := filepath.Glob("../../" + folder + "/*.go"); !ours || len(files) == 0 {
		return nil, fmt.Errorf("no package %s is known here", path)
	}
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

var (
	ofImports = regexp.MustCompile(`\A(import (\([^)]*\)|[^\n(]*)\n*)+`)
	left      = regexp.MustCompile(`(?m)(^\s*|\{ )…( \}|$)`) // code that is left out
	results   = regexp.MustCompile(`(?m)^return\b`)
)

// compile checks a file, declarations or statements, and returns what is wrong with them.
func (c *goCompiler) compile(code string) (errs []error) {
	code = left.ReplaceAllString(code, `${1}panic("")$2`)
	if !strings.HasPrefix(code, "package ") {
		imports := ofImports.FindString(code)
		code = code[len(imports):]
		if _, err := parser.ParseFile(gotoken.NewFileSet(), "", "package p\n"+code, 0); err != nil {
			result, local := "", ""
			if results.MatchString(code) {
				result = "(driver.Driver, error)"
			}
			if strings.Contains(code, "versioned.") {
				local = "var versioned *rowlock.Versioned; var version int64"
			}
			code = fmt.Sprintf("func _() %s {\n%s\n%s\n}\n", result, local, code)
		}
		code = strings.Replace(knownToGo, "import (", imports+"\nimport (", 1) + code
	}
	file, err := parser.ParseFile(c.set, "", code, 0)
	if err != nil {
		return []error{err}
	}
	config := types.Config{Importer: c, Error: func(err error) {
		if e, ok := err.(types.Error); ok && !e.Soft { // what is not used is soft
			errs = append(errs, errors.New(e.Msg))
		}
	}}
	_, _ = config.Check("documents", c.set, []*ast.File{file}, nil)
	return errs
}
