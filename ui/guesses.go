package ui

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// guesses bounds how many wrong passwords may come from one address: what comes then is not looked at.
type guesses struct {
	mu    sync.Mutex
	wrong map[string]guess
}

type guess struct {
	n     int
	since time.Time // of the first
}

const (
	mostGuesses  = 10 // in guessTime
	guessTime    = time.Minute
	mostGuessers = 10_000 // addresses that are remembered
)

// guesser is the address of a request that has a password, else "".
func guesser(r *http.Request) string {
	if r.Header.Get("Authorization") == "" {
		return ""
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// tooMany reports whether a request comes from where too many wrong passwords have come from.
func (g *guesses) tooMany(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	made := g.wrong[guesser(r)]
	return made.n >= mostGuesses && time.Since(made.since) < guessTime
}

// count counts a request whose password, if it has one, was wrong.
func (g *guesses) count(r *http.Request) {
	from := guesser(r)
	if from == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	made := g.wrong[from]
	if time.Since(made.since) >= guessTime {
		made = guess{since: time.Now()}
	}
	if g.wrong == nil || len(g.wrong) >= mostGuessers {
		g.wrong = map[string]guess{}
	}
	made.n++
	g.wrong[from] = made
}
