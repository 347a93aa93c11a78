package zkpeer

import (
	"strconv"
	"time"
)

// Option changes how a peer is started.
type Option func(*settings)

type settings struct {
	session  time.Duration
	patterns []string // of kazoo
}

func apply(opts []Option) settings {
	s := settings{session: 10 * time.Second}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

func (s settings) timeout() string { return strconv.FormatInt(s.session.Milliseconds(), 10) }

// SessionTimeout is what the peer asks the server for, ten seconds by default.
// The server may grant another one.
func SessionTimeout(d time.Duration) Option { return func(s *settings) { s.session = d } }

// LockPatterns makes kazoo respect nodes with other names than its own: "-lock-"
// is the name that a mutex of Curator gives. They respect kazoo's as little as before.
func LockPatterns(patterns ...string) Option { return func(s *settings) { s.patterns = patterns } }
