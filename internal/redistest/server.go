package redistest

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one Redis server, or one sentinel. A Restart keeps the data that it has
// saved: without Durable there is none.
type Server struct {
	*testserver.Server

	// With TLS: files in PEM form.
	CA, ClientCert, ClientKey string

	busPort int // where the nodes of a cluster talk to each other
	set     settings
	secure  *tls.Config
	clock   *testserver.Clock
}

// Start starts a server that ends with the test. If the test fails, it shows
// the server's log.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return testserver.Start(t, Run, opts)
}

// Run starts a server with its data in dir, which has to exist. The caller has
// to Stop it.
func Run(dir string, opts ...Option) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(binary); err != nil {
		return nil, fmt.Errorf("install redis-server (on Debian: apt-get install redis-server): %w", err)
	}
	s := &Server{}
	for _, opt := range opts {
		opt(&s.set)
	}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "redis-server", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	if err := s.Run(); err != nil {
		return nil, err
	}
	return s, nil
}

// binary is a sentinel as well, if it is told so.
const binary = "redis-server"

func (s *Server) configure() error {
	text := s.set.file(s.Dir)
	if s.set.tls {
		lines, err := s.prepareTLS()
		if err != nil {
			return err
		}
		text += lines
	} else {
		text += fmt.Sprintf("port %d\n", s.Port)
	}
	var err error
	if s.set.cluster {
		if s.busPort, err = s.Reserve(); err != nil {
			return err
		}
		text += fmt.Sprintf("cluster-port %d\n", s.busPort)
	}
	if s.set.fake {
		if s.clock, err = testserver.NewClock(s.Dir, s.set.offset); err != nil {
			return err
		}
	}
	return os.WriteFile(s.Path("redis.conf"), []byte(text), 0o600)
}

func (s *Server) command() (*exec.Cmd, error) {
	args := []string{s.Path("redis.conf")}
	if s.set.sentinel {
		args = append(args, "--sentinel")
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = os.Environ()
	if s.clock != nil {
		cmd.Env = append(cmd.Env, s.clock.Env()...)
	}
	return cmd, nil
}

func (s *Server) ready(pid int) func() (bool, error) {
	line := fmt.Sprintf("\nprocess_id:%d\r", pid)
	return func() (bool, error) {
		if info, err := s.Do("INFO", "server"); err != nil || !strings.Contains(fmt.Sprint(info), line) {
			return false, nil
		}
		_, err := s.Do("PING")
		return err == nil, nil
	}
}

// URL is redis://127.0.0.1:port, or rediss:// with TLS.
func (s *Server) URL() string {
	if s.set.tls {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}
