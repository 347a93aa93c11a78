package redistest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Option changes how a server is started.
type Option func(*settings)

type settings struct {
	lines    [][]string
	users    []string
	tls      bool
	ca       *testserver.Authority // nil: one of its own
	sentinel bool
	proxied  bool
	cluster  bool
	replicas int
	fake     bool
	offset   time.Duration
}

// has says whether a line of the configuration was added.
func (s *settings) has(key string) bool {
	return slices.ContainsFunc(s.lines, func(line []string) bool { return line[0] == key })
}

// Config adds a line to the server's configuration file. A later line
// overrides an earlier one.
func Config(key string, value ...string) Option {
	return func(s *settings) { s.lines = append(s.lines, append([]string{key}, value...)) }
}

// Durable makes every write survive the death of the server.
func Durable() Option {
	return func(s *settings) {
		Config("appendonly", "yes")(s)
		Config("appendfsync", "always")(s)
	}
}

// Users adds users: "alice on >secret ~* &* +@all". The user "default" is the
// one of clients that do not say who they are.
func Users(lines ...string) Option {
	return func(s *settings) { s.users = append(s.users, lines...) }
}

// admin is the user of this package's own commands, who is not in the way of
// any user that a test defines.
const admin, adminPassword = "redistest", "redistest"

// file is the text of the configuration file, without the addresses.
func (s *settings) file(dir string) string {
	lines := [][]string{{"bind", "127.0.0.1"}, {"protected-mode", "yes"}, {"dir", dir}}
	if !s.sentinel {
		lines = append(lines,
			[]string{"masteruser", admin},
			[]string{"masterauth", adminPassword},
			[]string{"save", ""},
			[]string{"enable-debug-command", "yes"},
			[]string{"repl-diskless-sync-delay", "0"}) // else a replica waits for others
	}
	lines = append(lines, s.lines...)
	var b strings.Builder
	for _, line := range lines {
		line = slices.Clone(line)
		for i, word := range line[1:] {
			line[i+1] = quote(word)
		}
		fmt.Fprintln(&b, strings.Join(line, " "))
	}
	fmt.Fprintf(&b, "user %s on >%s ~* &* +@all\n", admin, adminPassword)
	for _, line := range s.users {
		fmt.Fprintf(&b, "user %s\n", line)
	}
	return b.String()
}

var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`)

// quote makes one word of the configuration file.
func quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\r\n\"'\\") {
		return word
	}
	return `"` + quotes.Replace(word) + `"`
}
