//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

const password = "S3cr3tPw"

// said is all that a command writes, and its exit status.
func said(args ...string) (code int, text string) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	code = exitCode(root, root.Execute())
	return code, out.String()
}

// Promise: whatever is wrong with a URL, its password is in no message, and not in the
// environment of a job.
func TestNoPasswordOfAURLIsShown(t *testing.T) {
	t.Parallel()
	urls := []string{
		"redis://app:a/P@h/0", "redis://app:a?P@h/0", "redis://app:P?x@h", "redis://app:P?x=1@h/0", "redis://app:x@P?y=1@h/0",
		"postgres://app:P/x@h/db", "mysql://app:P/x@h/db", "zk://app:P/x@h/db", "rediss://app:P/x@h", "zks://app:P?x@h",
		"redis:app:P@127.0.0.1", "redis:/app:P@127.0.0.1", "redis:///app:P@127.0.0.1", "app:P@127.0.0.1:6379", ":P@127.0.0.1", "P@127.0.0.1",
		"redis://app:P", "redis://app:P/0", "redis://h,app:P/0", "redis://app:P,,h/0", "redis://app:P%zz@h", "redis://app:P@h:port/0",
		"sqlite:x?token=P", "sqlite:x?P", "sqlite://app:P@h/x.db", "sqlite:x?mode=P", "mem:?password=P", "mem://app:P@h",
		"redis://h/0?pass=P", "redis://h/0?timeout=P", "redis://h/0?replicas=P", "redis://h/0?ttl=P", "redis://h/0?password=%zzP",
		"postgres://h/db?direct=host%3Dx+password%3DP+port%3Dzz", "postgres://h/db?direct=gopher://u:P%40h", "postgres://h/db?durability=P",
		"postgres://h/db?schema=P;", "postgres://h/db?schema=P-", "postgres://h/db?sslmode=P", "postgres://h/db?connect_timeout=P",
		"postgres://h/db?target_session_attrs=P", "postgres://h/db?require_auth=P", "postgres://h/db?pool_max_conns=P",
		"mysql://app:P@h", "mysql://h/db?tls=P", "mysql://h/db?galera=P", "mysql://h/db?max_connections=P", "mysql://h/db?table_prefix=P-",
		"zk://h/?acl=P", "zk://h/?layout=P", "zk://app:P@h/a//b", "gopher://app:P@h",
		"jdbc:postgresql://app:P", "jdbc:postgresql://app:P/db", "jdbc:app:P", "gopher:app:P?ttl=1ns", "redis:redis://app:P", "postgres://postgres://app:P", "zk:zk://app:P/a",
		"redis://app:P@127.0.0.1:1/0?sentinel_password=P&master=m", "postgres://app:P@127.0.0.1:1/db?password=P&sslpassword=P",
		"postgres://127.0.0.1:1/db?direct=host%3D127.0.0.1+password%3DP", "mysql://app:P@127.0.0.1:1/db", "zk://app:P@127.0.0.1:1/?timeout=100ms",
	}
	for _, url := range urls {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			url := strings.ReplaceAll(url, "P", password)
			check := func(what, text string) {
				t.Helper()
				if strings.Contains(text, password) {
					t.Errorf("%s of %s says:\n%s", what, url, text)
				}
			}
			for _, args := range [][]string{{"ls"}, {"run", "-v", "a", "--", "true"}, {"doctor"}, {"admin", "schema"}, {"show", "a"}} {
				code, text := said(append([]string{"--url", url}, args...)...)
				if code == 0 && args[0] != "admin" || text == "" {
					t.Errorf("%v with %s: exit status %d, and it says %q", args, url, code, text)
				}
				check(args[0], text)
			}
			c, err := interlock.Open(t.Context(), url)
			if err == nil {
				c.Close()
				t.Fatalf("%s is opened", url)
			}
			check("Open", err.Error())
			check("Open", fmt.Sprintf("%+v %#v", err, err.Error()))
			if _, err := interlock.Check(t.Context(), url); err != nil {
				check("Check", err.Error())
			}
			if !errors.Is(err, interlock.ErrInvalid) { // else there is no job
				check(heldVariable, heldEntry(backend{url: url}, "a"))
			}
		})
	}
}

// Promise: what a server says that hangs, refuses, or repeats what it was told, leads to no
// message with the password.
func TestNoPasswordIsShownOfAServerThatIsNone(t *testing.T) {
	t.Parallel()
	servers := map[string]func(net.Conn){
		"hangs":   func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"refuses": func(c net.Conn) { c.Close() },
		"garbles": func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("what?\r\n"), 20)); _, _ = io.Copy(io.Discard, c) },
		"repeats": func(c net.Conn) { _, _ = io.Copy(c, c) },
		"old Redis": func(c net.Conn) {
			b := make([]byte, 4096)
			for {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				words := strings.Join(strings.Fields(string(b[:n])), "`, `")
				for range strings.Count("\r\n"+string(b[:n]), "\r\n*") {
					fmt.Fprintf(c, "-ERR unknown command `HELLO`, with args beginning with: `%s`\r\n", words)
				}
			}
		},
	}
	for name, serve := range servers {
		addr := testserver.Answer(t, serve)
		for scheme, options := range map[string]string{"redis": "0?timeout=300ms", "postgres": "db", "mysql": "db", "zk": "?timeout=300ms"} {
			if scheme == "zk" && (name == "repeats" || name == "old Redis") {
				continue // its client is ended by them
			}
			t.Run(name+"/"+scheme, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				url := fmt.Sprintf("%s://app:%s@%s/%s", scheme, password, addr, options)
				c, err := interlock.Open(ctx, url)
				if err == nil {
					c.Close()
					t.Fatal("it is opened")
				}
				if strings.Contains(err.Error(), password) {
					t.Errorf("Open says %v", err)
				}
			})
		}
	}
}

// Promise: the file of this user is found, whatever the folder is called.
func TestAFolderWithAnAt(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir()+"/c:d@e?f%g")
	b := errtest.Must(ownFile(""))(t)
	u, err := driver.ParseURL(b.url)
	if err != nil || u.Path != os.Getenv("XDG_STATE_HOME")+"/interlock/locks.db" {
		t.Errorf("%s: %v", b.url, err)
	}
}
