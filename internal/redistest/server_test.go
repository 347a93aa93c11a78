package redistest_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/redistest"
)

// do ends the test if the server answers with an error.
func do(t *testing.T, s *redistest.Server, args ...string) any {
	t.Helper()
	answer, err := s.Do(args...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %#v, want %#v", what, got, want)
	}
}

func same(t *testing.T, what string, got, want *redistest.Server) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %s, want %s", what, got.Addr, want.Addr)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("never: ", what)
		}
	}
}

func TestDo(t *testing.T) {
	s := redistest.Start(t)
	expect(t, "SET", do(t, s, "SET", "a key", "line\r\nline"), "OK")
	expect(t, "GET", do(t, s, "GET", "a key"), "line\r\nline")
	expect(t, "GET", do(t, s, "GET", "none"), nil)
	expect(t, "INCR", do(t, s, "INCR", "n"), int64(1))
	expect(t, "EVAL", do(t, s, "EVAL", "return {1,'x',{}}", "0"), []any{int64(1), "x", []any{}})
	expect(t, "Keys", s.Keys(), []string{"a key", "n"})
	_, err := s.Do("LPUSH", "n", "x")
	var answered redistest.Error
	if !errors.As(err, &answered) || !strings.HasPrefix(string(answered), "WRONGTYPE") {
		t.Errorf("got %v, want what the server has answered", err)
	}
	expect(t, "DEBUG", do(t, s, "DEBUG", "SLEEP", "0"), "OK")
	expect(t, "URL", s.URL(), "redis://"+s.Addr)
	expect(t, "save", do(t, s, "CONFIG", "GET", "save"), []any{"save", ""})
	expect(t, "bind", do(t, s, "CONFIG", "GET", "bind"), []any{"bind", "127.0.0.1"})
}

func TestConfig(t *testing.T) {
	s := redistest.Start(t, redistest.Config("maxmemory", "50mb"), redistest.Config("hz", "50"),
		redistest.Config("notify-keyspace-events", ""), redistest.Config("save", "900", "1"))
	for key, want := range map[string]string{
		"maxmemory": "52428800", "hz": "50", "notify-keyspace-events": "", "save": "900 1",
	} {
		expect(t, key, do(t, s, "CONFIG", "GET", key), []any{key, want})
	}
	_, err := redistest.Run(t.TempDir(), redistest.Config("no-such-key", "1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-key") {
		t.Errorf("got %v, want the server's own complaint", err)
	}
}

func TestWithoutTheBinary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redistest.Run(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "install redis-server") {
		t.Errorf("got %v, want what to install", err)
	}
}

func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		opts []redistest.Option
		want any
	}{
		"durable": {[]redistest.Option{redistest.Durable()}, "kept"},
		"not":     {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, c.opts...)
			do(t, s, "SET", "key", "kept")
			addr, pid := s.Addr, s.Pid()
			s.Kill()
			if _, err := s.Do("PING"); err == nil {
				t.Fatal("answers after it was killed")
			}
			s.Restart()
			expect(t, "address", s.Addr, addr)
			expect(t, "after the kill", do(t, s, "GET", "key"), c.want)
			if s.Pid() == pid {
				t.Error("the same process")
			}
			s.Restart()
			expect(t, "after the end in good order", do(t, s, "GET", "key"), c.want)
		})
	}
}

// A port stays with its server while that is down.
func TestPortIsKept(t *testing.T) {
	s := redistest.Start(t)
	s.Kill()
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	s.Restart()
}

func TestStop(t *testing.T) {
	s, err := redistest.Run(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	s.Stop()
	s.Stop()
	if _, err := net.Dial("tcp", s.Addr); err == nil {
		t.Error("it still listens")
	}
}

func TestPause(t *testing.T) {
	s := redistest.Start(t)
	conn := dial(t, s.Addr)
	conn.expect("PING", "+PONG\r\n")
	s.Pause()
	conn.send("PING")
	conn.silent()
	s.Resume()
	conn.read("+PONG\r\n")
}

func TestKillConnections(t *testing.T) {
	s := redistest.Start(t)
	normal, sub := dial(t, s.Addr), dial(t, s.Addr)
	normal.expect("PING", "+PONG\r\n")
	sub.expect("SUBSCRIBE x", "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n")
	expect(t, "pubsub", s.KillConnections("pubsub"), 1)
	sub.ended()
	normal.expect("PING", "+PONG\r\n")
	expect(t, "normal", s.KillConnections("normal"), 1)
	normal.ended()
}

func TestFlushScripts(t *testing.T) {
	s := redistest.Start(t)
	sum := do(t, s, "SCRIPT", "LOAD", "return 1").(string)
	expect(t, "known", do(t, s, "EVALSHA", sum, "0"), int64(1))
	s.FlushScripts()
	if _, err := s.Do("EVALSHA", sum, "0"); err == nil || !strings.Contains(err.Error(), "NOSCRIPT") {
		t.Errorf("got %v, want NOSCRIPT", err)
	}
}

func TestUsers(t *testing.T) {
	s := redistest.Start(t, redistest.Users("default off", "alice on >secret ~a:* +get +auth"))
	expect(t, "PING", do(t, s, "PING"), "PONG")
	conn := dial(t, s.Addr)
	conn.expect("PING", "-NOAUTH Authentication required.\r\n")
	conn.expect("AUTH alice secret", "+OK\r\n")
	conn.expect("GET a:1", "$-1\r\n")
	conn.expect("GET b:1", "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n")
}

func TestTLS(t *testing.T) {
	s := redistest.Start(t, redistest.TLS())
	expect(t, "PING", do(t, s, "PING"), "PONG")
	expect(t, "URL", s.URL(), "rediss://"+s.Addr)
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, ServerName: name}
		raw, err := tls.Dial("tcp", s.Addr, config)
		if err != nil {
			t.Fatal(err)
		}
		conn := &client{t: t, Conn: raw}
		conn.expect("PING", "+PONG\r\n")
		_ = raw.Close()
	}
	if _, err := tls.Dial("tcp", s.Addr, &tls.Config{ServerName: "localhost"}); err == nil {
		t.Error("the certificate is accepted without its authority")
	}
	// The server notices after the handshake of the client, and may reset the
	// connection before its reason has been read.
	bare, err := tls.Dial("tcp", s.Addr, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	if err == nil {
		defer bare.Close()
		(&client{t: t, Conn: bare}).ended()
	}
}
