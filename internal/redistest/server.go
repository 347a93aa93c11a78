// Package redistest starts real Redis servers for tests and benchmarks, alone,
// as a cluster or watched by sentinels, and disturbs them and the connections
// to them.
//
// Every server has a user of its own for what this
// package sends to it, so that a test can give or take the rights of all others.
package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Variable is the environment variable that names the server program to be tested with, instead of Debian's
// Redis: the path of a valkey-server, say.
const Variable = "REDISTEST_SERVER"

// Server is one Redis server, or one sentinel. A Restart keeps the data that it has
// saved: without Durable there is none.
type Server struct {
	*testserver.Server

	sentinel, proxied, cluster bool
	replicas, busPort          int // of a node of a cluster: how many it has, and where it talks to others
}

// Option changes how a server is started.
type Option = func(*Server)

// Config adds a line to the server's configuration file. A later line
// overrides an earlier one.
func Config(key string, value ...string) Option {
	return func(s *Server) { s.Lines = append(s.Lines, line(key, value...)) }
}

// Durable makes every write survive the death of the server.
func Durable() Option {
	return func(s *Server) {
		s.Lines = append(s.Lines, line("appendonly", "yes"), line("appendfsync", "always"))
	}
}

// Users adds users: "alice on >secret ~* &* +@all". The user "default" is the
// one of clients that do not say who they are.
func Users(lines ...string) Option {
	return func(s *Server) {
		for _, l := range lines {
			s.Lines = append(s.Lines, "user "+l)
		}
	}
}

// TLS makes the server listen with TLS only, and accept only clients that show
// a certificate of its own authority. Config("tls-auth-clients", "no") accepts
// all.
func TLS() Option { return func(s *Server) { s.Secure = true } }

// FakeTime lets the server see a wall clock that runs beside the true one by
// an offset, and that StepClock steps.
func FakeTime(offset time.Duration) Option { return func(s *Server) { s.Offset = &offset } }

var servers = testserver.Kind[*Server](newServer)

// Start starts a server that ends with the test.
func Start(t testing.TB, opts ...Option) *Server { return servers.Start(t, opts...) }

// Run starts a server with its data in dir, which has to exist. The caller has
// to Stop it.
func Run(dir string, opts ...Option) (*Server, error) { return servers.Run(dir, opts...) }

func newServer(dir string) *Server {
	s := &Server{}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "redis-server", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	return s
}

// admin is the user of this package's own commands, who is not in the way of
// any user that a test defines.
const admin, adminPassword = "redistest", "redistest"

func (s *Server) configure() (err error) {
	lines := []string{
		line("bind", "127.0.0.1"), line("protected-mode", "yes"), line("dir", s.Dir),
		fmt.Sprintf("user %s on >%s ~* &* +@all\n", admin, adminPassword),
	}
	if !s.sentinel {
		lines = append(lines, line("masteruser", admin), line("masterauth", adminPassword), line("save", ""),
			line("enable-debug-command", "yes"), line("repl-diskless-sync-delay", "0")) // else a replica waits for others
	}
	port := fmt.Sprint(s.Port)
	if s.Secure {
		lines = append(lines, "port 0", line("tls-port", port), "tls-replication yes", "tls-cluster yes",
			line("tls-ca-cert-file", s.CA), line("tls-cert-file", s.Cert), line("tls-key-file", s.Cert))
	} else {
		lines = append(lines, line("port", port))
	}
	if s.cluster {
		if s.busPort, err = s.Reserve(); err != nil {
			return err
		}
		lines = append(lines, line("cluster-enabled", "yes"), line("cluster-announce-ip", "127.0.0.1"),
			line("cluster-port", fmt.Sprint(s.busPort)), line("cluster-node-timeout", "60000"))
	}
	return s.Write("redis.conf", append(lines, s.Lines...)...)
}

var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`)

// line is one of the configuration file.
func line(key string, words ...string) string {
	for _, w := range words {
		key += ` "` + quotes.Replace(w) + `"`
	}
	return key
}

func (s *Server) command() (*exec.Cmd, error) {
	path, err := testserver.Find(cmp.Or(os.Getenv(Variable), "redis-server"), "redis-server")
	args := []string{s.Path("redis.conf")}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	return exec.Command(path, args...), errors.Join(err, s.mend())
}

// mend cuts off what a disk without power has left at the end of the log of changes. A server cuts off a change that is
// not whole, but it does not start if zeros follow.
func (s *Server) mend() error {
	log := s.Path("appendonlydir/appendonly.aof.manifest")
	check, err := exec.LookPath("redis-check-aof")
	if _, missing := os.Stat(log); err != nil || missing != nil {
		return nil
	}
	cmd := exec.Command(check, "--fix", log)
	cmd.Stdin = strings.NewReader("y\n")
	_, err = testserver.Output(cmd)
	return err
}

func (s *Server) ready(pid int) (bool, error) {
	if !s.says(fmt.Sprintf("process_id:%d", pid), "INFO", "server") {
		return false, nil
	}
	_, err := s.Do("PING")
	return err == nil, nil
}

// URL is redis://127.0.0.1:port, or rediss:// with TLS.
func (s *Server) URL() string {
	if s.Secure {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}

// Do sends one command over a connection of its own, as a user who may do
// everything. It returns a string, an int64, nil or a []any of these; an error
// that the server has answered is an Error.
func (s *Server) Do(args ...string) (any, error) {
	conn, err := s.Dial(answerWithin)
	var answer any
	if err == nil {
		answer, err = exchange(conn, []string{"AUTH", admin, adminPassword}, args)
	}
	if err != nil {
		return nil, fmt.Errorf("redis on %s: %s: %w", s.Addr, args[0], err)
	}
	return answer, nil
}

func (s *Server) must(args ...string) any {
	answer, err := s.Do(args...)
	s.Check(args[0], err)
	return answer
}

// says looks for a line in the answer to a command.
func (s *Server) says(line string, command ...string) bool {
	answer, err := s.Do(command...)
	return err == nil && strings.Contains(fmt.Sprintf("\n%v", answer), "\n"+line+"\r\n")
}

// KillConnections makes the server close all connections of a kind, "normal"
// or "pubsub", and returns how many there were. A connection that has
// subscribed to anything is of the latter kind only.
func (s *Server) KillConnections(kind string) int {
	return int(s.must("CLIENT", "KILL", "TYPE", kind).(int64))
}

// FlushScripts makes the server forget all scripts.
func (s *Server) FlushScripts() {
	s.must("SCRIPT", "FLUSH", "SYNC")
}

// Keys lists all keys, sorted.
func (s *Server) Keys() (keys []string) {
	for _, key := range s.must("KEYS", "*").([]any) {
		keys = append(keys, key.(string))
	}
	slices.Sort(keys)
	return keys
}

// SocketPath is where a server can make a Unix socket (unixsocket): its path has to be short.
func SocketPath(t testing.TB) string {
	dir, err := os.MkdirTemp("", "redis")
	testserver.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "redis.sock")
}
