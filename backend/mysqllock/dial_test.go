package mysqllock_test

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: a random number of the server that the MySQL driver misreads is no error.
func TestMisreadGreeting(t *testing.T) {
	t.Parallel()
	if !mysqltest.MariaDB() {
		t.Skip("only MariaDB has users whose greeting can be misread")
	}
	s := mysqltest.Start(t, mysqltest.Config("plugin_load_add", "auth_ed25519"))
	s.Do("CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('pw'); GRANT ALL ON locks.* TO ed@'%'")
	g := greetings{server: s.Addr}
	addr := g.relay(t)
	g.left.Store(1)
	opened(t, "mysql://ed:pw@"+addr+"/locks")
	if g.left.Load() > 0 {
		t.Error("no greeting ended in 0")
	}
	g.left.Store(1 << 30)
	if d, err := open(t.Context(), "mysql://ed:pw@"+addr+"/locks"); err == nil {
		d.Close()
		t.Error("opened, with numbers that the server has never sent")
	}
}

// greetings stands before a server, and lets random numbers that it greets with end in 0.
type greetings struct {
	server string
	left   atomic.Int64 // how many will
}

func (g *greetings) relay(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", g.server)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				defer server.Close()
				io.Copy(server, client)
			}()
			go func() {
				defer client.Close()
				g.answers(client, server)
			}()
		}
	}()
	return l.Addr().String()
}

func (g *greetings) answers(client io.Writer, server io.Reader) {
	data := make([]byte, 1<<16)
	for {
		n, err := server.Read(data)
		if err != nil {
			return
		}
		if bytes.Contains(data[:n], []byte("client_ed25519\x00")) && g.left.Add(-1) >= 0 {
			data[n-1] = 0
		}
		if _, err := client.Write(data[:n]); err != nil {
			return
		}
	}
}
