// Package zktest starts real ZooKeeper servers for tests and benchmarks, and
// disturbs them and the connections to them. They need Java and the jars of Debian's package
// libzookeeper-java.
package zktest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one ZooKeeper server. A Restart keeps its data.
type Server struct {
	*testserver.Server

	jvm      []string
	durable  bool
	peer     *peer         // nil: it is no part of an ensemble
	patience time.Duration // how long a starting server is given to answer
}

// Option changes how a server is started.
type Option = func(*Server)

// Config adds a line to the server's configuration file. A later line
// overrides an earlier one. A key that ZooKeeper does not know is for it the
// system property of that name with "zookeeper." in front.
func Config(key, value string) Option {
	text := line(key, value)
	return func(s *Server) { s.Lines = append(s.Lines, text) }
}

// line is one of a file of Java properties.
func line(key, value string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(key + "=" + value)
}

// JVM adds arguments for the Java machine. By default it starts fast and stays
// small: JVM("-Xmx1g", "-XX:TieredStopAtLevel=4") makes it a server for
// benchmarks.
func JVM(args ...string) Option {
	return func(s *Server) { s.jvm = append(s.jvm, args...) }
}

// Durable lets every write wait for the disk. Without it a write survives the
// death of the server, but not that of the machine.
func Durable() Option { return func(s *Server) { s.durable = true } }

// TLS makes the server listen with TLS only, and accept only clients that show
// a certificate of its own authority. Config("ssl.clientAuth", "none") accepts
// all. The server's certificate is for localhost and 127.0.0.1.
func TLS() Option { return func(s *Server) { s.Secure = true } }

// Tick sets the unit of the server's time, which is 200 ms otherwise. Sessions
// end at the next whole tick. Their shortest and longest timeouts are 2 and 200
// ticks, which Config("minSessionTimeout", milliseconds) and
// Config("maxSessionTimeout", milliseconds) change.
func Tick(d time.Duration) Option {
	return func(s *Server) {
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

var servers = testserver.Kind[*Server](newServer)

// Start starts a server that ends with the test.
func Start(t testing.TB, opts ...Option) *Server { return servers.Start(t, opts...) }

// Run starts a server with its data in dir, which has to exist. The caller has
// to Stop it.
func Run(dir string, opts ...Option) (*Server, error) { return servers.Run(dir, opts...) }

func newServer(dir string) *Server {
	s := &Server{patience: 100 * time.Millisecond}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "ZooKeeper", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	Tick(200 * time.Millisecond)(s)
	return s
}

func (s *Server) configure() error {
	lines := []string{
		line("dataDir", s.Path("data")), "maxClientCnxns=0", // any number of clients from one address
		"admin.enableServer=false", "4lw.commands.whitelist=*",
	}
	if !s.durable {
		lines = append(lines, "forceSync=no")
	}
	port := "clientPort"
	if s.Secure {
		port = "secureClientPort"
		lines = append(lines, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			line("ssl.keyStore.location", s.Cert), line("ssl.trustStore.location", s.CA))
	}
	lines = append(append(lines, port+"Address=127.0.0.1", line(port, strconv.Itoa(s.Port))), s.Lines...)
	if s.peer != nil {
		lines = append(lines, s.peer.lines...)
	}
	return s.Write("zoo.cfg", lines...)
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
	}, s.jvm...)
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
	s.Check("restart", s.Again(func() error { return os.RemoveAll(s.Path("data")) }))
}

// SetSequence makes n the number of the next sequential node under path, which
// has to exist and to be at a smaller number. No client could do that: the
// server is killed, gets it written into its log, and starts again; sessions
// survive. It is for a server alone.
func (s *Server) SetSequence(path string, n int32) {
	s.Kill()
	s.Check("set the sequence of "+path, s.logSequence(path, n))
	s.Restart()
}

// logSequence logs that a node was created under path as the n-th, and deleted:
// what the log says about the parent goes into the parent.
func (s *Server) logSequence(path string, n int32) error {
	logs, _ := filepath.Glob(s.Path("data/version-2/log.*"))
	if len(logs) == 0 || s.peer != nil {
		return errors.New("it has no log, or is one of an ensemble")
	}
	name := slices.MaxFunc(logs, func(a, b string) int { return cmp.Compare(first(a), first(b)) })
	log, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(log, []byte("ZKLG\x00\x00\x00\x02")) {
		return errors.New(name + ": not a log that is known here")
	}
	// After the head come entries: checksum, length, body, and a mark; and then nothing or zeros.
	end, zxid := 16, uint64(0)
	for len(log) >= end+12 {
		size := int(binary.BigEndian.Uint32(log[end+8:]))
		if size == 0 {
			break
		}
		zxid = binary.BigEndian.Uint64(log[end+12+12:]) // after session and request
		end += 12 + size + 1
	}
	child := strings.TrimSuffix(path, "/") + "/set-sequence"
	const opCreate, opDelete = 1, 2
	create := record{}.string(child).int32(-1). // no data
							int32(1).int32(31).string("world").string("anyone")
	create = append(create, 0).int32(n) // not ephemeral
	entries := append(entry(zxid+1, opCreate, create), entry(zxid+2, opDelete, record{}.string(child))...)
	return os.WriteFile(name, append(log[:end], entries...), 0o600)
}

// first is the number of the first transaction in a log.
func first(log string) uint64 {
	_, hex, _ := strings.Cut(filepath.Base(log), ".")
	n, _ := strconv.ParseUint(hex, 16, 64)
	return n
}

// entry is one transaction in the log.
func entry(zxid uint64, op int32, txn record) []byte {
	body := record{}.int64(0).int32(0).int64(int64(zxid)).int64(0).int32(op) // of no session, at no time
	body = append(body, txn...)
	e := record{}.int64(int64(adler32.Checksum(body))).int32(int32(len(body)))
	return append(append(e, body...), 'B')
}

// record is data as ZooKeeper writes it.
type record []byte

func (r record) int32(n int32) record   { return binary.BigEndian.AppendUint32(r, uint32(n)) }
func (r record) int64(n int64) record   { return binary.BigEndian.AppendUint64(r, uint64(n)) }
func (r record) string(s string) record { return append(r.int32(int32(len(s))), s...) }
