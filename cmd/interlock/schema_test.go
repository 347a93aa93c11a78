//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/pgtest"
)

// schema is what interlock schema prints.
func schema(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(append([]string{"schema"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
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

// Promise: with what schema prints, a user can lock who may not make tables.
func TestSchemaForAUserOfPostgreSQLWhoMayNotMakeTables(t *testing.T) {
	s := pgtest.Start(t, pgtest.User("app", "secret"))
	s.SQL("REVOKE CREATE ON DATABASE " + pgtest.Database + " FROM PUBLIC")
	url := s.URLOf("app", "secret")
	root := newRoot()
	root.SetOut(&bytes.Buffer{})
	root.SetArgs([]string{"ls", "--url", url})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "interlock schema") {
		t.Errorf("without tables the command says %v, not what to do", err)
	}
	s.SQL(schema(t, "--url", url, "--grant", "app"))
	usable(t, url)
}
