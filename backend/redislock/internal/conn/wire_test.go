package conn

import (
	"fmt"
	"strings"
	"testing"
)

// command is how the client of Redis writes one.
func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

const greeting = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"

// talk has a connection send and receive, in pieces of so many bytes.
func talk(size int, sent, received string) error {
	w := &wire{}
	for i := 0; i < len(sent); i += size {
		w.sent([]byte(sent[i:min(i+size, len(sent))]))
	}
	for i := 0; i < len(received); i += size {
		if err := w.received([]byte(received[i:min(i+size, len(received))])); err != nil {
			return err
		}
	}
	return nil
}

var pieces = []int{1, 2, 3, 7, 1 << 20}

// Promise: what Redis answers passes, wherever it is cut.
func TestAnswersOfRedisPass(t *testing.T) {
	push := command("subscribe", "a", "1")
	push = ">" + push[1:]
	unsub := ">" + command("unsubscribe", "a", "0")[1:]
	for name, c := range map[string]struct{ sent, received string }{
		"calls": {
			command("HELLO", "3") + command("GET", "a\r\n$9\r\n") + command("EVALSHA", "x"),
			greeting + "$4\r\na\r\nb\r\n" + "*3\r\n:1\r\n*2\r\n$-1\r\n_\r\n*0\r\n",
		},
		"errors":                         {command("HELLO", "3") + command("PING") + command("PING"), greeting + "-ERR no\r\n!5\r\nERR x\r\n"},
		"all types":                      {command("HELLO", "3") + command("A"), greeting + "*9\r\n+OK\r\n-E\r\n:-1\r\n#t\r\n,1.5\r\n(12\r\n=5\r\ntxt:a\r\n~1\r\n$0\r\n\r\n%1\r\n+a\r\n*-1\r\n"},
		"news":                           {command("HELLO", "3") + command("SUBSCRIBE", "a"), greeting + push + ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\nx 1\r\n"},
		"many channels":                  {command("HELLO", "3") + command("SUBSCRIBE", "a", "b") + command("PING"), greeting + push + push + "+PONG\r\n"},
		"a subscription that is refused": {command("HELLO", "3") + command("SUBSCRIBE", "a"), greeting + "-NOPERM no\r\n"},
		"channels that are left": {command("HELLO", "3") + command("SUBSCRIBE", "a", "b") + command("UNSUBSCRIBE") + command("PING") + command("SUBSCRIBE", "a") + command("PING"),
			greeting + push + push + unsub + unsub + "+PONG\r\n" + push + "+PONG\r\n"},
		"channels that cannot be left": {command("HELLO", "3") + command("UNSUBSCRIBE") + command("PING") + command("PING"), greeting + "-NOPERM no\r\n+PONG\r\n+PONG\r\n"},
		"a PING that is refused": {command("HELLO", "3") + command("SUBSCRIBE", "a") + command("UNSUBSCRIBE") + command("PING") + command("PING"),
			greeting + push + unsub + "-NOPERM User somebody has no permissions to run the 'ping' command\r\n-NOPERM no\r\n"},
		"RESP2":         {command("HELLO", "2") + command("SUBSCRIBE", "a") + command("PING"), "*2\r\n+server\r\n+redis\r\n" + command("subscribe", "a", "1") + command("message", "a", "x") + "*2\r\n$4\r\npong\r\n$0\r\n\r\n"},
		"a large value": {command("HELLO", "3") + command("A"), greeting + "$1000000\r\n" + strings.Repeat("x", 1000000) + "\r\n"},
		"a long queue":  {command("HELLO", "3") + command("A"), greeting + "*400000\r\n" + strings.Repeat(":1\r\n", 400000)},
	} {
		for _, size := range pieces {
			if size < 7 && len(c.received) > 1000 {
				continue
			}
			if err := talk(size, c.sent, c.received); err != nil {
				t.Errorf("%s, in pieces of %d: %v", name, size, err)
			}
		}
	}
}

// Promise: what would end the program is not read by the client of Redis.
func TestWhatIsNoAnswerEndsTheConnection(t *testing.T) {
	hello := command("HELLO", "3")
	for name, c := range map[string]struct{ sent, received string }{
		"a banner":                    {hello, "220 mail ESMTP\r\n"},
		"HTTP":                        {hello, "HTTP/1.1 400 Bad Request\r\n"},
		"a second error":              {hello, "-ERR a\r\n-ERR b\r\n"},
		"an answer too many":          {hello + command("PING"), greeting + "+PONG\r\n+PONG\r\n"},
		"a huge array":                {hello, "*2000000000\r\n"},
		"a huge map":                  {hello, "%1000000000\r\n"},
		"a long number":               {hello, "*99999999999999999999\r\n"},
		"a large greeting":            {hello, "%10000\r\n"},
		"a huge array later":          {hello + command("A"), greeting + "*2000000\r\n"},
		"huge arrays in an array":     {hello + command("A"), greeting + "*2\r\n*900000\r\n" + strings.Repeat(":1\r\n", 900000) + "*900000\r\n"},
		"a huge text":                 {hello + command("A"), greeting + "$999999999\r\n"},
		"a negative length":           {hello, "$-5\r\n"},
		"a negative map":              {hello, "%-1\r\n"},
		"deep":                        {hello, strings.Repeat("*1\r\n", 100)},
		"an endless line":             {hello, "+" + strings.Repeat("A", 1<<20)},
		"an endless number":           {hello, "*" + strings.Repeat("1", 1<<20)},
		"without an end of its own":   {hello, "$?\r\n"},
		"an attribute":                {hello, "|1\r\n+a\r\n+b\r\n"},
		"half an end of a line":       {hello, "*12\n"},
		"nothing that is something":   {hello, "_abc\r\n"},
		"a subscription of nobody":    {hello, greeting + ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"},
		"a subscription to a call":    {hello + command("GET", "a"), greeting + ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"},
		"a subscription in a QUEUE":   {hello + command("SUBSCRIBE", "a"), greeting + "+QUEUED\r\n"},
		"an error after subscription": {hello + command("SUBSCRIBE", "a"), greeting + ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n-ERR x\r\n"},
		"an answer too many after leaving a channel": {hello + command("UNSUBSCRIBE") + command("PING"), greeting + "+PONG\r\n+PONG\r\n"},
		"another answer to PING":                     {hello + command("UNSUBSCRIBE") + command("PING"), greeting + "-ERR x\r\n-ERR x\r\n"},
		"news within a value":                        {hello + command("A"), greeting + "*1\r\n>1\r\n+a\r\n"},
	} {
		for _, size := range pieces {
			if size < 7 && len(c.received) > 1000 {
				continue
			}
			if err := talk(size, c.sent, c.received); err == nil {
				t.Errorf("%s, in pieces of %d: passes", name, size)
			}
		}
	}
}

// Promise: a look at an answer allocates nothing.
func TestALookAtAnAnswerAllocatesNothing(t *testing.T) {
	w := &wire{}
	w.sent([]byte(command("HELLO", "3")))
	if err := w.received([]byte(greeting)); err != nil {
		t.Fatal(err)
	}
	sent, received := []byte(command("EVALSHA", strings.Repeat("a", 40), "1", "key", "value")), []byte("*6\r\n:1\r\n:0\r\n:1700000000000000\r\n:-1\r\n:0\r\n:-1\r\n")
	if n := testing.AllocsPerRun(1000, func() {
		w.sent(sent)
		if err := w.received(received); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkALookAtAnAnswer(b *testing.B) {
	w := &wire{greeted: true}
	sent, received := []byte(command("EVALSHA", strings.Repeat("a", 40), "7", "q", "interlock:{q}:t", "interlock:{q}:q", strings.Repeat("x", 150))), []byte("*6\r\n:1\r\n:0\r\n:1700000000000000\r\n:-1\r\n:0\r\n:-1\r\n")
	b.ReportAllocs()
	for b.Loop() {
		w.sent(sent)
		if err := w.received(received); err != nil {
			b.Fatal(err)
		}
	}
}
