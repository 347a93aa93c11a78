package etcdtest

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one member. A Restart keeps its data.
type Server struct {
	*testserver.Server

	// With TLS: files in PEM form.
	CA, ClientCert, ClientKey string

	set     settings
	name    string
	peer    int    // its port for other members
	cluster string // --initial-cluster
	added   bool   // the cluster was there before
}

// Start starts a member that is a cluster of its own, and ends with the test. If the test fails, it
// shows the server's log.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Run(t.TempDir(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.BelongTo(t)
	return s
}

// Run starts a member with its data in dir, which has to exist. The caller has to Stop it.
func Run(dir string, opts ...Option) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := newServer(dir, "one", opts)
	if err := s.Run(); err != nil {
		return nil, err
	}
	return s, nil
}

func newServer(dir, name string, opts []Option) *Server {
	s := &Server{name: name}
	for _, opt := range opts {
		opt(&s.set)
	}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "etcd", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	return s
}

// configure reserves the second port, unless the cluster has done so.
func (s *Server) configure() error {
	if s.cluster == "" {
		if err := s.reservePeer(); err != nil {
			return err
		}
		s.cluster = s.asPeer()
	}
	if s.set.tls {
		return s.prepareTLS()
	}
	return nil
}

func (s *Server) reservePeer() (err error) {
	s.peer, err = s.Reserve()
	return err
}

// asPeer is what --initial-cluster says of the member.
func (s *Server) asPeer() string { return s.name + "=" + s.peerURL() }

func (s *Server) peerURL() string { return "http://" + testserver.Address(s.peer) }

func (s *Server) command() (*exec.Cmd, error) {
	path, err := program(s.set.version)
	if err != nil {
		return nil, err
	}
	client := "http://" + s.Addr
	if s.set.tls {
		client = "https://" + s.Addr
	}
	state := "new"
	if s.added {
		state = "existing"
	}
	args := []string{
		"--name", s.name, "--data-dir", s.Path("data"), "--logger", "zap", "--log-outputs", "stderr",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", s.peerURL(), "--initial-advertise-peer-urls", s.peerURL(),
		"--initial-cluster", s.cluster, "--initial-cluster-state", state, "--initial-cluster-token", s.cluster,
	}
	if s.set.tls {
		args = append(args, "--cert-file", s.Path("server.pem"), "--key-file", s.Path("server.key"), "--trusted-ca-file", s.CA, "--client-cert-auth")
	}
	return exec.Command(path, append(args, s.set.flags...)...), nil
}

// ready asks for the health that the server reports, which needs a leader.
func (s *Server) ready(int) func() (bool, error) {
	client := &http.Client{Timeout: time.Second}
	url := "http://" + s.Addr + "/health"
	if s.set.tls {
		config, err := s.clientTLS()
		if err != nil {
			return func() (bool, error) { return false, err }
		}
		client.Transport = &http.Transport{TLSClientConfig: config}
		url = "https://" + s.Addr + "/health"
	}
	return func() (bool, error) {
		defer client.CloseIdleConnections()
		answer, err := client.Get(url)
		if err != nil {
			return false, nil
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return strings.Contains(string(text), `"true"`), nil
	}
}

// Ctl runs etcdctl with these arguments, and returns what it has printed.
func (s *Server) Ctl(args ...string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := s.Command(ctx, args...).CombinedOutput()
	s.Check("etcdctl "+strings.Join(args, " ")+": "+string(out), err)
	return string(out)
}

// Command is etcdctl with these arguments, to be run by the test.
func (s *Server) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "etcdctl", append([]string{"--endpoints", s.Addr}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	return cmd
}
