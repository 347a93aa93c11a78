package zktest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one ZooKeeper server. A Restart keeps its data.
type Server struct {
	*testserver.Server

	// With TLS: files in PEM form.
	CA, ClientCert, ClientKey string

	set    settings
	secure *tls.Config
	peer   *peer // nil: it is no part of an ensemble
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
	if err := installed(); err != nil {
		return nil, err
	}
	s := newServer(dir, opts)
	if err := s.Run(); err != nil {
		return nil, err
	}
	return s, nil
}

func newServer(dir string, opts []Option) *Server {
	s := &Server{}
	for _, opt := range opts {
		opt(&s.set)
	}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "ZooKeeper", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	return s
}

// jars are the server, which names most of its libraries itself, what it lacks
// for TLS, and a log on the standard error.
var jars = []string{
	"/usr/share/java/zookeeper.jar",
	"/usr/share/java/netty-codec.jar",
	"/usr/share/java/slf4j-simple.jar",
}

func installed() error {
	_, err := exec.LookPath("java")
	for _, jar := range jars {
		if err == nil {
			_, err = os.Stat(jar)
		}
	}
	if err != nil {
		return fmt.Errorf("install ZooKeeper (on Debian: apt-get install libzookeeper-java default-jre-headless): %w", err)
	}
	return nil
}

func (s *Server) configure() error {
	text := s.set.file(s.Path("data"))
	if s.set.tls {
		lines, err := s.prepareTLS()
		if err != nil {
			return err
		}
		text += lines
	} else {
		text += fmt.Sprintf(plainPort, s.Port)
	}
	if s.peer != nil {
		text += s.peer.lines
	}
	return os.WriteFile(s.Path("zoo.cfg"), []byte(text), 0o600)
}

const plainPort = "clientPortAddress=127.0.0.1\nclientPort=%d\n"

func (s *Server) command() (*exec.Cmd, error) {
	if s.peer != nil {
		if err := s.peer.name(s.Path("data")); err != nil {
			return nil, err
		}
	}
	return exec.Command("java", s.set.command(s.Path("zoo.cfg"))...), nil
}

func (s *Server) ready(int) func() (bool, error) {
	known := false
	// A server that has just begun to listen may accept a connection and never
	// answer there.
	patience := 100 * time.Millisecond
	return func() (bool, error) {
		var err error
		if !known {
			var conf string
			conf, err = s.askWithin(patience, "conf")
			known = strings.Contains(conf, s.Path("data"))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			patience = min(2*patience, answerWithin)
		}
		return known && s.Serving(), nil
	}
}

// RestartEmpty is like Restart, but the server has lost all its data.
func (s *Server) RestartEmpty() {
	s.Helper()
	s.Check("restart", s.Again(func() error { return os.RemoveAll(s.Path("data")) }))
}
