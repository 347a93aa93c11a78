//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// consult asks the doctor, who exits with this status, for the findings that are not well.
func consult(t *testing.T, url string, status int) (ill map[string]interlock.Finding) {
	t.Helper()
	c := cli(t, url, "doctor", "--json")
	out, _ := c.Output()
	if code := c.ProcessState.ExitCode(); code != status {
		t.Fatalf("exit status %d, not %d: %s%v", code, status, out, c.Stderr)
	}
	var all []interlock.Finding
	if err := json.Unmarshal(out, &all); err != nil || len(all) == 0 || all[0].Check != "open" {
		t.Fatalf("it says %s: %v", out, err)
	}
	if strings.Contains(string(out), "interlock doctor") {
		t.Errorf("it leads to itself: %s", out)
	}
	ill = map[string]interlock.Finding{}
	for _, f := range all {
		if f.Status == "fail" {
			ill[f.Check] = f
		}
	}
	return ill
}

// refers makes sure that a command fails without rights, and sends its user to the doctor.
func refers(t *testing.T, url string) {
	t.Helper()
	c := cli(t, url, "value", "get", "a")
	if err := c.Run(); err == nil || c.ProcessState.ExitCode() != exitUnreachable {
		t.Errorf("exit status %d without rights", c.ProcessState.ExitCode())
	}
	if text := c.Stderr.(interface{ String() string }).String(); !strings.Contains(text, "interlock doctor names") || strings.Count(text, "\n") != 1 {
		t.Errorf("it says %q", text)
	}
}

// Promise: the doctor needs no right that may be missing: it names the right, with the statement
// that grants it, and exits with 78. A backend that does not answer is 69.
func TestDoctorWithoutRights(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		do := func(statement string) {
			t.Helper()
			errtest.Must(s.Do(strings.Fields(statement)...))(t)
		}
		do("ACL SETUSER app on >secret ~* &* +@all -subscribe")
		url := "redis://app:secret@" + s.Addr
		refers(t, url)
		ill := consult(t, url, exitConfig)
		statement := ill["exchanges"].Remedy
		if ill["open"].Remedy != "see the other checks, and try again" || !strings.HasPrefix(statement, "ACL SETUSER app ") || !strings.Contains(statement, "+subscribe") {
			t.Errorf("it says %+v", ill)
		}
		do(statement)
		consult(t, url, 0)
		s.Kill()
		if ill = consult(t, url, exitUnreachable); len(ill) != 1 || !strings.Contains(ill["open"].Remedy, "can be reached") {
			t.Errorf("it says %+v", ill)
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		s := pgtest.Start(t, pgtest.Durable(), pgtest.User("app", "secret"), pgtest.User("admin", "secret"))
		url := s.URLOf("app", "secret")
		if f := consult(t, url, exitConfig)["tables"]; !strings.Contains(f.Remedy, "interlock admin schema --grant app") {
			t.Errorf("it says %+v", f)
		}
		s.SQL(schema(t, "--url", url, "--grant", "admin"))
		refers(t, url)
		if f := consult(t, url, exitConfig)["exchanges"]; !strings.Contains(f.Remedy, "interlock admin schema --only-grants --grant app") {
			t.Errorf("it says %+v", f)
		}
		s.SQL(schema(t, "--url", url, "--only-grants", "--grant", "app"))
		consult(t, url, 0)
	})
}
