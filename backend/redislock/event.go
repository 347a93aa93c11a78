package redislock

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// hear reads a message that a script has sent to this client:
//
//	NUMBER TOKEN FLAGS:PROOF [TIME]  granted; flags i: inherits, w: another waits behind
//	w NUMBER…                        another waits behind these
//	r NUMBER                         please give it up
//	e NUMBER                         it is not renewed any more
//	x NUMBER                         it is gone
//	l NUMBER                         it is the first waiter now: look when to look
//	f NUMBER                         what is followed has changed
//	p NUMBER                         the echo of a heartbeat
//
// A stranger who may publish on the server can send them, too, also without a right to a single
// key. So a grant has a proof, and most others are no more than a reason to ask the server. One that
// says that another waits is believed: it has the holder hurry, and no more. A grant whose
// proof is false is a reason to ask as well.
//
// It runs where the connection is read and waits for nothing.
func (s *store) hear(message string, receive func(exchange.Event)) {
	what, rest, _ := strings.Cut(message, " ")
	ev := exchange.Event{Type: exchange.Demanded, Unverified: true}
	switch what {
	case "p":
		number, _ := strconv.ParseUint(rest, 10, 64)
		s.feed.hear(number)
		return
	case "f":
		ev.Type = exchange.TopicChanged
		ev.Topic, _ = strconv.ParseUint(rest, 10, 64)
		receive(ev)
		return
	case "w":
		ev.Demand, ev.Unverified = driver.Wanted, false
	case "r":
		ev.Demand = driver.Revoke
	case "e":
		ev.Demand = driver.Evict
	case "x":
		ev.Type = exchange.Removed
	case "l":
		ev.Type = exchange.FirstWaiter
	default:
		if ev, ok := granted(what, rest); ok {
			receive(ev)
		}
		return
	}
	for n := range strings.SplitSeq(rest, " ") {
		ev.Number, _ = strconv.ParseUint(n, 10, 64)
		receive(ev)
	}
}

// granted reads the message of a grant; one of a later version is left out.
func granted(who, rest string) (ev exchange.Event, ok bool) {
	number, err := strconv.ParseUint(who, 10, 64)
	text, rest, _ := strings.Cut(rest, " ")
	token, err2 := strconv.ParseUint(text, 10, 64)
	if err != nil || err2 != nil {
		return ev, false
	}
	flags, at, fixed := strings.Cut(rest, " ")
	flags, proof, _ := strings.Cut(flags, ":")
	message := who + " " + text + " " + flags
	ev = exchange.Event{Type: exchange.Granted, Number: number, Status: exchange.Status{
		State: exchange.Held, Token: token, Inherited: strings.Contains(flags, "i"), Wanted: strings.Contains(flags, "w"),
	}}
	if fixed {
		message += " " + at
		if began, err := strconv.ParseInt(at, 10, 64); err == nil {
			ev.Status.At = time.UnixMicro(began)
		}
	}
	ev.Proves = func(id string) bool { // see news in format.lua
		sum := sha1.Sum([]byte(message + " " + id))
		return proof == hex.EncodeToString(sum[:])[:20]
	}
	return ev, true
}
