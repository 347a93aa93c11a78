// Package zktest starts real ZooKeeper servers for tests and benchmarks, and
// disturbs them and the connections to them. They need Java and the jars of Debian's package
// libzookeeper-java.
package zktest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one ZooKeeper server. A Restart keeps its data.
type Server struct {
	*testserver.Server

	set      settings
	peer     *peer         // nil: it is no part of an ensemble
	patience time.Duration // how long a starting server is given to answer
}

// Option changes how a server is started.
type Option func(*settings)

type settings struct {
	lines        []string
	jvm          []string
	durable, tls bool
}

// Config adds a line to the server's configuration file. A later line
// overrides an earlier one. A key that ZooKeeper does not know is for it the
// system property of that name with "zookeeper." in front.
func Config(key, value string) Option {
	// It is a file of Java properties.
	text := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(key + "=" + value)
	return func(s *settings) { s.lines = append(s.lines, text) }
}

// JVM adds arguments for the Java machine. By default it starts fast and stays
// small: JVM("-Xmx1g", "-XX:TieredStopAtLevel=4") makes it a server for
// benchmarks.
func JVM(args ...string) Option {
	return func(s *settings) { s.jvm = append(s.jvm, args...) }
}

// Durable lets every write wait for the disk. Without it a write survives the
// death of the server, but not that of the machine.
func Durable() Option { return func(s *settings) { s.durable = true } }

// TLS makes the server listen with TLS only, and accept only clients that show
// a certificate of its own authority. Config("ssl.clientAuth", "none") accepts
// all. The server's certificate is for localhost and 127.0.0.1.
func TLS() Option { return func(s *settings) { s.tls = true } }

// Tick sets the unit of the server's time, which is 200 ms otherwise. Sessions
// end at the next whole tick. Their shortest and longest timeouts are 2 and 200
// ticks, which Config("minSessionTimeout", milliseconds) and
// Config("maxSessionTimeout", milliseconds) change.
func Tick(d time.Duration) Option {
	return func(s *settings) {
		for key, ticks := range map[string]int64{"tickTime": 1, "minSessionTimeout": 2, "maxSessionTimeout": 200} {
			Config(key, strconv.FormatInt(ticks*d.Milliseconds(), 10))(s)
		}
	}
}

// MaxBuffer sets how many bytes of data a request or a node may have, about.
// It is a million otherwise.
func MaxBuffer(bytes int) Option { return JVM("-Djute.maxbuffer=" + strconv.Itoa(bytes)) }

// Containers sets how often the server looks for containers that have become
// empty, which is once a minute otherwise.
func Containers(every time.Duration) Option {
	return JVM(fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", every.Milliseconds()))
}

// Start starts a server that ends with the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := newServer(t.TempDir(), opts)
	testserver.Start(t, s)
	return s
}

// Run starts a server with its data in dir, which has to exist. The caller has
// to Stop it.
func Run(dir string, opts ...Option) (*Server, error) {
	s := newServer(dir, opts)
	return s, s.Run()
}

func newServer(dir string, opts []Option) *Server {
	s := &Server{patience: 100 * time.Millisecond}
	for _, opt := range append([]Option{Tick(200 * time.Millisecond)}, opts...) {
		opt(&s.set)
	}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "ZooKeeper", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	return s
}

func (s *Server) configure() error {
	own := settings{}
	add := func(key, value string) { Config(key, value)(&own) }
	add("dataDir", s.Path("data"))
	if !s.set.durable {
		add("forceSync", "no")
	}
	add("maxClientCnxns", "0") // any number of clients from one address
	add("admin.enableServer", "false")
	add("4lw.commands.whitelist", "*")
	port := "clientPort"
	if s.set.tls {
		if err := s.Certify(); err != nil {
			return err
		}
		port = "secureClientPort"
		add("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
		add("ssl.keyStore.location", s.Cert)
		add("ssl.trustStore.location", s.CA)
	}
	add(port+"Address", "127.0.0.1")
	add(port, strconv.Itoa(s.Port))
	lines := append(own.lines, s.set.lines...)
	if s.peer != nil {
		lines = append(lines, s.peer.lines...)
	}
	return os.WriteFile(s.Path("zoo.cfg"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// jars are the server, which names most of its libraries itself, what it lacks
// for TLS, and a log on the standard error.
const jars = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar:/usr/share/java/slf4j-simple.jar"

func (s *Server) command() (*exec.Cmd, error) {
	java, err := testserver.Find("java", "libzookeeper-java default-jre-headless")
	if err != nil {
		return nil, err
	}
	if s.peer != nil { // it has to know its own number
		if err := os.MkdirAll(s.Path("data"), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(s.Path("data/myid"), []byte(strconv.Itoa(s.peer.id)), 0o600); err != nil {
			return nil, err
		}
	}
	args := append([]string{
		"-Xmx256m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		// Servers that miss each other's votes would say them again after up to a minute.
		"-Dzookeeper.fastleader.maxNotificationInterval=500",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.showShortLogName=true",
	}, s.set.jvm...)
	args = append(args, "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.Path("zoo.cfg"))
	return exec.Command(java, args...), nil
}

// answerWithin is how long a server that serves may take to answer one word.
const answerWithin = 10 * time.Second

func (s *Server) ready(int) (bool, error) {
	// A server that has just begun to listen may accept a connection and never
	// answer there.
	conf, err := s.ask(s.patience, "conf")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.patience = min(2*s.patience, answerWithin)
	}
	return strings.Contains(conf, s.Path("data")) && s.Serving(), nil
}

// Ask sends one of the words of four letters that a server answers without a
// session: srvr, mntr, cons, dump, wchs and others.
func (s *Server) Ask(word string) (string, error) { return s.ask(answerWithin, word) }

func (s *Server) ask(within time.Duration, word string) (string, error) {
	conn, err := s.Dial(within)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// Serving says whether the server serves clients now. One of an ensemble does
// only while it has a leader.
func (s *Server) Serving() bool { return s.mode(answerWithin) != "" }

// mode is standalone, leader or follower; nothing if the server does not serve now.
func (s *Server) mode(within time.Duration) string {
	answer, _ := s.ask(within, "srvr")
	_, mode, _ := strings.Cut(answer, "\nMode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

// Figure is a figure of the word mntr: packets_sent, znode_count, watch_count,
// num_alive_connections and many more. The question itself is a packet received.
func (s *Server) Figure(name string) (figure float64) {
	s.Helper()
	answer, err := s.Ask("mntr")
	if err == nil {
		_, value, _ := strings.Cut("\n"+answer, "\nzk_"+name+"\t")
		_, err = fmt.Sscan(value, &figure)
	}
	s.Check("figure "+name, err)
	return figure
}

// RestartEmpty is like Restart, but the server has lost all its data.
func (s *Server) RestartEmpty() {
	s.Helper()
	s.Check("restart", s.Again(func() error { return os.RemoveAll(s.Path("data")) }))
}
