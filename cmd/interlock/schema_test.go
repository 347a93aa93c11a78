//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// schema is what interlock admin schema prints.
func schema(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(append([]string{"admin", "schema"}, args...))
	errtest.None(t, root.ExecuteContext(t.Context()))
	return out.String()
}

// usable makes sure that a lock can be had and shown at the URL.
func usable(t *testing.T, url string) {
	t.Helper()
	for _, args := range [][]string{{"value", "set", "v", "x"}, {"ls"}, {"doctor"}} {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs(append(args, "--url", url))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out.String())
		}
	}
}

// refused makes sure that nothing is there to work with, and that the command says how
// to change that.
func refused(t *testing.T, url string) {
	t.Helper()
	root := newRoot()
	root.SetOut(&bytes.Buffer{})
	root.SetArgs([]string{"ls", "--url", url})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "interlock admin schema") {
		t.Errorf("without tables the command says %v, not what to do", err)
	}
}

// Promise: with what schema prints, a user can lock who may not make tables.
func TestSchemaForAUserOfPostgreSQLWhoMayNotMakeTables(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Durable(), pgtest.User("app", "secret"))
	s.SQL("REVOKE CREATE ON DATABASE " + pgtest.Database + " FROM PUBLIC")
	url := s.URLOf("app", "secret")
	refused(t, url)
	s.SQL(schema(t, "--url", url, "--grant", "app"))
	usable(t, url)
	s.SQL("CREATE ROLE other LOGIN PASSWORD 'secret'")
	s.SQL(schema(t, "--url", url, "--only-grants", "--grant", "other"))
	usable(t, s.URLOf("other", "secret"))
}

func TestSchemaForAUserOfMariaDBWhoMayNotMakeTables(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t, mysqltest.Synced())
	s.Do("CREATE USER limited@'%' IDENTIFIED BY 'secret'; GRANT USAGE ON *.* TO limited@'%'")
	url := s.URLOf("limited", "secret")
	s.Do(schema(t, "--url", url, "--grant", "limited"))
	usable(t, url)
	s.Do("CREATE USER other@'%' IDENTIFIED BY 'secret'; GRANT USAGE ON *.* TO other@'%'")
	s.Do(schema(t, "--url", url, "--only-grants", "--grant", "other"))
	usable(t, s.URLOf("other", "secret"))
}
