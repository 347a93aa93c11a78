package zktest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answerWithin is how long a server that serves may take to answer one word.
const answerWithin = 10 * time.Second

// Ask sends one of the words of four letters that a server answers without a
// session: srvr, mntr, cons, dump, wchs and others.
func (s *Server) Ask(word string) (string, error) {
	return s.askWithin(answerWithin, word)
}

func (s *Server) askWithin(d time.Duration, word string) (string, error) {
	answer, err := s.exchange(d, word)
	if err != nil {
		return "", fmt.Errorf("ZooKeeper on %s: %s: %w", s.Addr, word, err)
	}
	return answer, nil
}

func (s *Server) exchange(d time.Duration, word string) (string, error) {
	if len(word) != 4 {
		return "", fmt.Errorf("%q has not four letters", word)
	}
	conn, err := s.dial(d)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(d)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func (s *Server) dial(within time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: within}
	if s.secure != nil {
		return tls.DialWithDialer(dialer, "tcp", s.Addr, s.secure)
	}
	return dialer.Dial("tcp", s.Addr)
}

// Serving says whether the server serves clients now. One of an ensemble does
// only while it has a leader.
func (s *Server) Serving() bool {
	answer, err := s.Ask("srvr")
	return err == nil && strings.Contains(answer, "\nMode: ")
}

// Figure is a figure of the word mntr: packets_sent, znode_count, watch_count,
// num_alive_connections and many more. The question itself is a packet received.
func (s *Server) Figure(name string) float64 {
	s.Helper()
	answer, err := s.Ask("mntr")
	s.Check("figures", err)
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if key != "zk_"+name {
			continue
		}
		figure, err := strconv.ParseFloat(value, 64)
		s.Check("figure "+name, err)
		return figure
	}
	s.Fail("no figure %s in:\n%s", name, answer)
	return 0
}
