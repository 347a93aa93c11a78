package pglock

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: the password itself is not given to whoever answers, also not on this machine, where everybody can listen
// while the server does not run: neither without TLS nor with TLS that verifies nobody, unless only the server can have
// made the socket, or the URL allows it.
func TestWhoGetsThePasswordItself(t *testing.T) {
	t.Setenv("PGREQUIREAUTH", "")
	own, open := url.PathEscape(t.TempDir()), t.TempDir()
	noError(t, os.Chmod(open, 0o777|os.ModeSticky))
	const scram = "!password,!md5"
	for url, want := range map[string]string{
		"postgres://u:p@db.example/d":                            scram,
		"postgres://u:p@db.example/d?sslmode=disable":            scram,
		"postgres://u:p@db.example/d?sslmode=require":            scram,
		"postgres://u:p@192.0.2.1/d":                             scram,
		"postgres://u:p@127.0.0.1,db.example/d?sslmode=disable":  scram,
		"postgres://u:p@127.0.0.1/d":                             scram,
		"postgres://u:p@[::1]/d":                                 scram,
		"postgres://u:p@localhost/d":                             scram,
		"postgres://u:p@" + url.PathEscape(open) + "/d":          scram,
		"postgres://u:p@/d?host=@name":                           scram,
		"postgres://u:p@db.example/d?sslmode=verify-full":        "",
		"postgres://u:p@" + own + "/d":                           "",
		"postgres://u:p@db.example/d?require_auth=password":      "password",
		"postgres://u:p@127.0.0.1/d?require_auth=md5":            "md5",
		"postgres://u:p@db.example/d?require_auth=scram-sha-256": "scram-sha-256",
	} {
		u := errtest.Must(driver.ParseURL(url))(t)
		s, err := storeOf(u)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if got := s.pool.Config().ConnConfig.RequireAuth; got != want {
			t.Errorf("%s: %q, not %q", url, got, want)
		}
		s.Close()
	}

	// A server that asks for it does not get it, and the user is told what to do.
	heard := make(chan []byte, 10)
	addr := testserver.Answer(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "R\x00\x00\x00\x08\x00\x00\x00\x03") // AuthenticationCleartextPassword
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		all, _ := io.ReadAll(c)
		heard <- all
	})
	u := errtest.Must(driver.ParseURL("postgres://u:S3cret@" + addr + "/d?sslmode=disable"))(t)
	d, err := driver.OpenURL(t.Context(), u)
	if err == nil {
		d.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "sslmode=verify-full") || !driver.IsPermanent(err) {
		t.Errorf("a server that asks for the password itself: %v", err)
	}
	if all := <-heard; bytes.Contains(all, []byte("S3cret")) {
		t.Errorf("it has received %q", all)
	}
}

var noError = errtest.None

// Promise: a connection that nobody uses is closed after 30 seconds, so that a process that
// was busy once leaves its connections to others; or after the time that the URL says.
func TestAnIdleConnectionIsClosedSoon(t *testing.T) {
	for options, want := range map[string]time.Duration{"": 30 * time.Second, "?pool_max_conn_idle_time=7m": 7 * time.Minute} {
		u := errtest.Must(driver.ParseURL("postgres://app@127.0.0.1:1/locks" + options))(t)
		s := errtest.Must(storeOf(u))(t)
		c := s.pool.Config()
		if c.MaxConnIdleTime != want || c.HealthCheckPeriod > max(want/2, 15*time.Second) {
			t.Errorf("with %q idle connections stay for %v, and are looked for every %v", options, c.MaxConnIdleTime, c.HealthCheckPeriod)
		}
		s.Close()
	}
}
