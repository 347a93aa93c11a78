package pglock

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: the password itself is not given to whoever answers: neither without TLS nor with TLS that verifies
// nobody, unless the server is this machine, or the URL allows it.
func TestWhoGetsThePasswordItself(t *testing.T) {
	t.Setenv("PGREQUIREAUTH", "")
	for url, want := range map[string]string{
		"postgres://u:p@db.example/d":                            "!password",
		"postgres://u:p@db.example/d?sslmode=disable":            "!password",
		"postgres://u:p@db.example/d?sslmode=require":            "!password",
		"postgres://u:p@192.0.2.1/d":                             "!password",
		"postgres://u:p@127.0.0.1,db.example/d?sslmode=disable":  "!password",
		"postgres://u:p@db.example/d?sslmode=verify-full":        "",
		"postgres://u:p@127.0.0.1/d":                             "",
		"postgres://u:p@[::1]/d":                                 "",
		"postgres://u:p@localhost/d":                             "",
		"postgres://u:p@%2Frun%2Fpostgresql/d":                   "",
		"postgres://u:p@db.example/d?require_auth=password":      "password",
		"postgres://u:p@db.example/d?require_auth=scram-sha-256": "scram-sha-256",
	} {
		u, err := driver.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
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
	u, err := driver.ParseURL("postgres://u:S3cret@" + addr + "/d?sslmode=disable&require_auth=!password")
	if err != nil {
		t.Fatal(err)
	}
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
