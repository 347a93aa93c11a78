package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a line that is longer than what a server takes in one message is served all the
// same: the limit is of what clients send.
func TestALineThatIsLongerThanAMessage(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.MaxBuffer(10_000))
	a, b := session(t, opened(t, s.Addr), 20*time.Second), session(t, opened(t, s.Addr), 20*time.Second)
	h := holds(t, a, aMutex("q"))
	const many = 200
	var all sync.WaitGroup
	line := make([]driver.Ticket, many)
	for i := range line {
		all.Go(func() {
			r := aMutex("q")
			got, err := []*driver.Opened{a, b}[i%2].Join(context.Background(), r)
			if err != nil || got.Held {
				t.Errorf("%+v %v", got, err)
			}
			line[i] = driver.Ticket{ID: r.ID, Queue: "q"}
		})
	}
	all.Wait()
	q, err := opened(t, s.Addr).Follow(limited(t), "q", "")
	if err != nil || len(q.Members) != many+1 {
		t.Fatalf("%d are in line: %v", len(q.Members), err)
	}
	turns := make(chan driver.Ticket)
	for i, k := range line {
		all.Go(func() {
			who := []*driver.Opened{a, b}[i%2]
			got, err := who.Await(context.Background(), k)
			if err != nil || !got.Held {
				t.Errorf("%+v %v", got, err)
			}
			turns <- got
			if err := who.Leave(context.Background(), k, true); err != nil {
				t.Error(err)
			}
		})
	}
	noError(t, a.Leave(limited(t), h, true))
	for last := uint64(0); len(line) > 0; line = line[1:] {
		if got := <-turns; got.Token <= last {
			t.Errorf("token %d after %d", got.Token, last)
		} else {
			last = got.Token
		}
	}
	all.Wait()
}

// Promise: a session is refused more tickets than what servers can remove at once and
// still start again.
func TestServersOutliveTheEndOfALargeSession(t *testing.T) {
	const limit = 20_000
	defer zklock.MostWeight(limit)()
	s := zktest.Start(t, zktest.MaxBuffer(limit))
	a := session(t, opened(t, s.Addr), 20*time.Second)
	path := strings.Repeat("x", 150)
	many := 0
	for ; ; many++ {
		got, err := a.Join(limited(t), aMutex(fmt.Sprint(path, many)))
		if err == nil && many < limit/100 {
			if many == 0 { // what has left does not count
				noError(t, a.Leave(limited(t), got, true))
			}
			continue
		}
		if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "several clients") {
			t.Fatalf("ticket %d: %v", many, err)
		}
		break
	}
	if want := limit / (150 + 75); many < want {
		t.Errorf("%d tickets are too many already", many)
	}
	noError(t, a.Close(limited(t)))
	s.Kill()
	s.Restart()
	holds(t, session(t, opened(t, s.Addr), 20*time.Second), aMutex("q"))
}

// Promise: a note that no server takes is refused, and disturbs nobody.
func TestANoteThatNoServerTakes(t *testing.T) {
	t.Parallel()
	s := lent(t)
	a := session(t, opened(t, s.Addr), 20*time.Second)
	r := aMutex("q")
	r.Note = make([]byte, 1<<20)
	if _, err := a.Join(limited(t), r); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a note of a million bytes: %v", err)
	}
	r.Note = r.Note[:100_000]
	holds(t, a, r)
}
