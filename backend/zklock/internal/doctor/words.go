package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// server is one server, and what it tells without a session.
type server struct {
	name    string // of the URL
	addr    string
	err     error // it cannot be reached
	mode    string
	version string
	conf    map[string]string // nil: not told
	figures map[string]string // nil: not told
	refused []string          // words that are not allowed
}

const wordWithin = 2 * time.Second

var errNoAnswer = errors.New("it accepts a connection and says nothing")

// askAll asks all servers of the URL at once; of a program's own connection,
// only the server that it has now is known.
func (d *Doctor) askAll(ctx context.Context) []*server {
	hosts := d.Hosts
	if len(d.Hosts) == 0 {
		hosts = nil
		if d.session != nil {
			hosts = []string{d.session.Conn.Server()}
		}
	}
	var all []*server
	for _, h := range hosts {
		name, port, _ := net.SplitHostPort(h)
		ips, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil || len(ips) == 1 {
			all = append(all, &server{name: name, addr: h, err: err})
			continue
		}
		for _, ip := range ips {
			all = append(all, &server{name: name, addr: net.JoinHostPort(ip, port)})
		}
	}
	var asked sync.WaitGroup
	for _, s := range all {
		if s.err == nil {
			asked.Go(func() { s.ask(ctx, d.Dial(s.name)) })
		}
	}
	asked.Wait()
	return all
}

func (s *server) ask(ctx context.Context, dial Dialler) {
	text, err := s.word(ctx, dial, "srvr")
	if s.err = err; err != nil {
		return
	}
	status := pairs(text, ":")
	s.version, s.mode = status["Zookeeper version"], status["Mode"]
	if text, err = s.word(ctx, dial, "conf"); err == nil && strings.Contains(text, "=") {
		s.conf = pairs(text, "=")
	}
	if text, err = s.word(ctx, dial, "mntr"); err == nil && strings.Contains(text, "zk_") {
		s.figures = pairs(text, "\t")
	}
}

// word sends one of the words that a server answers without a session, over a
// connection of its own.
func (s *server) word(ctx context.Context, dial Dialler, word string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	c, err := dial("tcp", s.addr, wordWithin)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetDeadline(time.Now().Add(wordWithin))
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, 1<<20))
	text := string(answer)
	switch {
	case text == "" && err != nil:
		return "", fmt.Errorf("%s: %w", word, err)
	case text == "":
		return "", errNoAnswer
	case strings.Contains(text, "not in the whitelist"):
		s.refused = append(s.refused, word)
	}
	return text, nil
}

// pairs reads lines of a key and a value.
func pairs(text, between string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), between); ok {
			all[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return all
}

// serves reports whether the server has a quorum; known is false if it does not say.
func (s *server) serves() (yes, known bool) {
	for _, word := range s.refused {
		if word == "srvr" {
			return false, false
		}
	}
	return s.mode != "", s.err == nil
}

func (d *Doctor) checkVisible(context.Context) driver.Finding {
	var hidden []string
	for _, word := range []string{"srvr", "conf", "mntr"} {
		for _, s := range d.servers {
			if strings.Contains(strings.Join(s.refused, " "), word) {
				hidden = append(hidden, word)
				break
			}
		}
	}
	if len(hidden) == 0 {
		return driver.Finding{}
	}
	return doctor.Fine("%s may not be asked (4lw.commands.whitelist): something may be wrong that is not seen here",
		strings.Join(hidden, ", "))
}
