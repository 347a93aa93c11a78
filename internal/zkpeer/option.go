package zkpeer

import (
	"strconv"
	"time"
)

// Option changes how a peer is started.
type Option func(*settings)

type settings struct {
	session  time.Duration
	flags    []string // of the JVM
	patterns []string // of kazoo
}

func apply(opts []Option) settings {
	s := settings{session: 10 * time.Second, flags: testFlags}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

func (s settings) timeout() string { return strconv.FormatInt(s.session.Milliseconds(), 10) }

// SessionTimeout is what the peer asks the server for, ten seconds by default.
// The server may grant another one.
func SessionTimeout(d time.Duration) Option { return func(s *settings) { s.session = d } }

// Tests want a JVM that starts fast and leaves the machine to others, benchmarks
// one that is as fast as it is for its users.
var (
	testFlags      = []string{"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	benchmarkFlags = []string{"-Xmx1g", "-Xss512k"}
)

// Fast is for benchmarks: the JVM of Curator compiles as well as it can.
func Fast() Option { return func(s *settings) { s.flags = benchmarkFlags } }

// LockPatterns makes kazoo respect nodes with other names than its own: "-lock-"
// is the name that a mutex of Curator gives. They respect kazoo's as little as before.
func LockPatterns(patterns ...string) Option { return func(s *settings) { s.patterns = patterns } }
