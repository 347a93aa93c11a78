package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// channel is where scripts send what is for a session's client.
func channel(of *driver.Opened) string { return "interlock:" + exchangetest.RowOf(of).Mailbox }

// publish sends messages to the channel of a session's client, all in one exchange.
func publish(t testing.TB, s *redistest.Server, to *driver.Opened, messages ...string) {
	t.Helper()
	args := append([]string{"EVAL", "for i = 2, #ARGV do redis.call('PUBLISH', ARGV[1], ARGV[i]) end", "0", channel(to)}, messages...)
	errtest.Must(s.Do(args...))(t)
}

// forged are the messages about a ticket that somebody could send who knows its number.
func forged(number string, last uint64) (all []string) {
	for _, token := range []uint64{0, 1, last, last + 1, 4611686018427387, driver.MaxToken - 1, driver.MaxToken, 1<<64 - 1} {
		for _, flags := range []string{"-", "iw", "- 1", "-:", "-:0123456789abcdef0123"} {
			all = append(all, fmt.Sprintf("%s %d %s", number, token, flags))
		}
	}
	for _, what := range []string{"x", "e", "r", "l", "f", "p", "w"} {
		all = append(all, what+" "+number)
	}
	return all
}

// overheard are the messages to a session's client, from now on.
func overheard(t *testing.T, s *redistest.Server, to *driver.Opened) <-chan string {
	t.Helper()
	client := errtest.Must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true}))(t)
	t.Cleanup(client.Close)
	conn, _ := client.Dedicate()
	all := make(chan string, 100)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { all <- m.Message }})
	noError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel(channel(to)).Build()).Error())
	return all
}

// numberOf is the number by which messages name a ticket, which only those know who may read the keys.
func numberOf(t *testing.T, s *redistest.Server, queue, id string) string {
	t.Helper()
	return do(t, s, "EVAL", "local _, _, _, _, _, _, number = struct.unpack('>dddddddsss', redis.call('HGET', KEYS[1], ARGV[1])) return string.format('%d', number)",
		"1", "interlock:{"+queue+"}:q", id).(string)
}

// awaiting is what Await returns, once.
func awaiting(t *testing.T, s *driver.Opened, tk driver.Ticket) <-chan driver.Ticket {
	got := make(chan driver.Ticket, 1)
	go func() {
		tk, err := s.Await(t.Context(), tk)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Await: %v", err)
		}
		got <- tk
	}()
	return got
}

// toldOf makes sure that the next signals of a session, but those that others wait, are these.
func toldOf(t *testing.T, s *driver.Opened, want ...driver.Demand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(45*time.Second))
	defer cancel()
	for _, w := range want {
		got, err := s.Signals(ctx)
		for err == nil && got.Demand == driver.Wanted {
			got, err = s.Signals(ctx)
		}
		if err != nil || got.Demand != w {
			t.Fatalf("the next signal is %v, %v; want %v", got, err, w)
		}
	}
}

// Promise: whoever may publish to the clients of a server, and no more, changes nothing that they know of their
// tickets: be it that the stranger has heard the numbers of tickets (those who guess are in the rule Stranger), or
// repeats with a change what was sent. With true news clients learn what is true.
func TestMessagesOfAStranger(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), time.Minute)
	d, b := session(t, s.URL(), time.Minute)
	held := joined(t, a, exclusive("q"), true)
	w := joined(t, b, exclusive("q"), false)
	got := awaiting(t, b, w)

	publish(t, s, b, forged(numberOf(t, s, "q", w.ID), held.Token)...)
	publish(t, s, a, forged(numberOf(t, s, "q", held.ID), held.Token)...)
	noError(t, d.Ask(t.Context(), "q", w.ID, driver.Revoke))
	toldOf(t, b, driver.Revoke)
	select {
	case tk := <-got:
		t.Fatalf("a stranger has granted %+v", tk)
	default:
	}
	renew(t, a, held)
	renew(t, b, w)

	// The stranger hears the news of the grant, and sends it on with another token.
	sent := overheard(t, s, b)
	noError(t, a.Leave(t.Context(), held, true))
	tk := errtest.Received(t, "the grant", got)
	token := fmt.Sprintf(" %d ", tk.Token)
	news := errtest.Received(t, "the news of the grant", sent)
	for !strings.Contains(news, token) {
		news = errtest.Received(t, "the news of the grant", sent)
	}
	publish(t, s, b, strings.Replace(news, token, fmt.Sprintf(" %d ", tk.Token+1), 1))
	noError(t, d.Ask(t.Context(), "q", w.ID, driver.Revoke))
	toldOf(t, b, driver.Revoke)
	again, err := b.Join(t.Context(), driver.Request{ID: w.ID, Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1, Retry: true})
	if err != nil || again.Token != tk.Token || tk.Token <= held.Token || tk.Token >= driver.MaxToken {
		t.Errorf("granted as %+v, and then known as %+v, %v", tk, again, err)
	}
}
