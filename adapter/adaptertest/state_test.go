package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/statelock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// states is what a server has, as simple as possible.
type states struct {
	mu     sync.Mutex
	bodies map[string]string
	during func(context.Context) // each write
}

func (s *states) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && s.during != nil {
		s.during(r.Context())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		_, _ = io.WriteString(w, s.bodies[r.URL.Path])
	case http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		s.bodies[r.URL.Path] = string(body)
	case http.MethodDelete:
		delete(s.bodies, r.URL.Path)
	}
}

// stateServer is one of several servers.
type stateServer struct {
	t testing.TB
	*instance
	url string
}

func serveStates(t *testing.T, url string, hold time.Duration, s *states, opts ...statelock.Option) stateServer {
	t.Helper()
	return open(t, url).serveStates(t, hold, s, opts...)
}

func (i *instance) serveStates(t *testing.T, hold time.Duration, s *states, opts ...statelock.Option) stateServer {
	t.Helper()
	server := httptest.NewServer(statelock.New(i.Client, "terraform", hold, s, opts...))
	t.Cleanup(server.Close)
	return stateServer{t, i, server.URL}
}

const network, networkLock = "/state/network", "terraform/state/network"

// lockInfo is what Terraform sends.
func lockInfo(id string) string {
	return `{"ID":"` + id + `","Operation":"OperationTypeApply","Info":"","Who":"ada@host","Version":"1.9.0",` +
		`"Created":"2026-11-01T10:00:00Z","Path":""}`
}

// does sends a request, and returns the LockInfo that the answer has.
func (s stateServer) does(method, path, body string, want int) (id string) {
	s.t.Helper()
	r := errtest.Must(http.NewRequest(method, s.url+path, strings.NewReader(body)))(s.t)
	a := errtest.Must(http.DefaultClient.Do(r))(s.t)
	defer a.Body.Close()
	text := errtest.Must(io.ReadAll(a.Body))(s.t)
	if a.StatusCode != want {
		s.t.Errorf("%s %s: %d %s, want %d", method, path, a.StatusCode, text, want)
	}
	if a.Header.Get("Content-Type") != "application/json" {
		return ""
	}
	var info struct{ ID, Who string }
	errtest.None(s.t, json.Unmarshal(text, &info))
	if info.Who == "" {
		s.t.Errorf("%s %s does not say who: %s", method, path, text)
	}
	return info.ID
}

// refused is a request that is answered with the LockInfo of the holder.
func (s stateServer) refused(method, path, body string, want int, holder string) {
	s.t.Helper()
	if id := s.does(method, path, body, want); id != holder {
		s.t.Errorf("%s %s names %q as the holder, not %q", method, path, id, holder)
	}
}

// Promise: one client has the lock. The others get 423 with its LockInfo, from each server; a client that repeats its
// request gets 200, and so does one that repeats UNLOCK.
func TestStateIsLockedOnceAndARepeatedRequestSucceeds(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		a, b := serveStates(t, url, time.Hour, s), serveStates(t, url, time.Hour, s)
		a.does("LOCK", network, lockInfo("first"), 200)
		a.does("LOCK", network, lockInfo("first"), 200)
		b.does("LOCK", network, lockInfo("first"), 200)
		a.refused("LOCK", network, lockInfo("second"), 423, "first")
		b.refused("LOCK", network, lockInfo("second"), 423, "first")
		b.does("LOCK", "/state/other", lockInfo("second"), 200)
		b.refused("UNLOCK", network, lockInfo("second"), 409, "first")
		b.does("UNLOCK", network, lockInfo("first"), 200)
		a.does("UNLOCK", network, lockInfo("first"), 200)
		a.does("LOCK", network, lockInfo("second"), 200)
		a.does("LOCK", network, "{}", 400)
		a.does("UNLOCK", network, "not JSON", 400)
		a.does("LOCK", network, lockInfo(strings.Repeat("x", 5000)), 413)
		a.does("LOCK", "/..", lockInfo("first"), 400)
	})
}

// Promise: of requests that come at once with different IDs, one gets the lock, and the others its LockInfo.
func TestStateIsLockedOnceByManyAtATime(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		a, b := serveStates(t, url, time.Hour, s), serveStates(t, url, time.Hour, s)
		var wg sync.WaitGroup
		got := make(chan string, 20)
		for i := range 20 {
			wg.Go(func() {
				server, id := []stateServer{a, b}[i%2], fmt.Sprint(i)
				r := errtest.Must(http.NewRequest("LOCK", server.url+network, strings.NewReader(lockInfo(id))))(t)
				a, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer a.Body.Close()
				if a.StatusCode == 200 {
					got <- id
				} else if a.StatusCode != 423 {
					text, _ := io.ReadAll(a.Body)
					t.Errorf("LOCK: %d %s", a.StatusCode, text)
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Fatalf("%d have the lock", len(got))
		}
		a.refused("LOCK", network, lockInfo("another"), 423, <-got)
	})
}

// Promise: the holder alone writes a locked state, with the token of its lock. A client whose lock has ended is
// refused, and one that asks for no lock writes a state that is not locked.
func TestStateIsWrittenByItsHolderAlone(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		a := serveStates(t, url, time.Hour, s)
		var tokens []uint64
		s.during = func(ctx context.Context) {
			if lease := interlock.LeaseFrom(ctx); lease != nil {
				tokens = append(tokens, lease.Token())
			}
		}
		a.does("POST", network, "without a lock", 200)
		a.does("LOCK", network, lockInfo("first"), 200)
		a.does("POST", network+"?ID=first", "of the first", 200)
		a.refused("POST", network+"?ID=second", "of the second", 423, "first")
		a.refused("POST", network, "without a lock", 423, "first")
		a.refused("DELETE", network, "", 423, "first")
		a.does("GET", network, "", 200)
		a.does("UNLOCK", network, lockInfo("first"), 200)
		a.does("POST", network+"?ID=first", "too late", 409)
		if s.bodies[network] != "of the first" {
			t.Errorf("the state is %q", s.bodies[network])
		}
		a.does("LOCK", network, lockInfo("second"), 200)
		a.does("POST", network+"?ID=second", "of the second", 200)
		if len(tokens) != 3 || tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
			t.Errorf("the tokens are %v", tokens)
		}
	})
}

// Promise: a write whose body comes slowly is judged when it has come: one without a lock does not replace what a
// client writes that has locked the state meanwhile.
func TestStateIsNotReplacedByABodyThatComesSlowly(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		a := serveStates(t, url, time.Hour, s)
		body, slow := io.Pipe()
		answered := make(chan int, 1)
		go func() {
			r, err := http.Post(a.url+network, "", body)
			if err != nil {
				answered <- 0
				return
			}
			_ = r.Body.Close()
			answered <- r.StatusCode
		}()
		errtest.Must(io.WriteString(slow, "a part"))(t) // it is under way
		a.does("LOCK", network, lockInfo("first"), 200)
		a.does("POST", network+"?ID=first", "of the first", 200)
		errtest.None(t, slow.Close())
		if status := <-answered; status != 423 {
			t.Errorf("the slow body: %d, want 423", status)
		}
		a.does("GET", network, "", 200)
		if s.bodies[network] != "of the first" {
			t.Errorf("the state is %q", s.bodies[network])
		}
	})
}

// Promise: four bodies are in memory at once, and the next one waits for its turn.
func TestStateBodiesTakeTurns(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		a := serveStates(t, url, time.Hour, s)
		answers := make(chan int, 5)
		client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: busy.Bound(time.Minute)}}
		defer client.CloseIdleConnections()
		send := func(path string, body io.Reader) {
			status := 0
			r := errtest.Must(http.NewRequest(http.MethodPost, a.url+path, body))(t)
			r.Header.Set("Expect", "100-continue") // the body is sent when it is read
			if r, err := client.Do(r); err == nil {
				status = r.StatusCode
				_ = r.Body.Close()
			}
			answers <- status
		}
		var slow [4]*io.PipeWriter
		for i := range slow {
			var body *io.PipeReader
			body, slow[i] = io.Pipe()
			go send(fmt.Sprintf("/slow/%d", i), body)
			errtest.Must(io.WriteString(slow[i], "x"))(t)
		}
		go send("/next", strings.NewReader("the next"))
		select {
		case status := <-answers:
			t.Fatalf("a fifth body was answered beside four: %d", status)
		case <-time.After(50 * time.Millisecond): // so that it waits; if not, the test is easier to pass
		}
		for i := range slow {
			errtest.None(t, slow[i].Close())
		}
		for range 5 {
			if status := <-answers; status != 200 {
				t.Errorf("a body was answered with %d", status)
			}
		}
	})
}

// Promise: UNLOCK without an ID, which force-unlock sends, is for those whom the server allows it. The next client gets
// the lock when the context of a write that was under way has ended.
func TestStateIsUnlockedByForceOnlyIfAllowed(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		first := &instance{Client: errtest.Must(interlock.Open(t.Context(), url, interlock.TTL(2*time.Second)))(t)}
		t.Cleanup(func() { first.Close() })
		a := first.serveStates(t, time.Hour, s)
		b := serveStates(t, url, time.Hour, s, statelock.AllowForce(func(r *http.Request) bool {
			return r.URL.Query().Get("operator") == "yes"
		}))
		a.does("LOCK", network, lockInfo("first"), 200)
		a.does("UNLOCK", network+"?operator=yes", "", 403)
		b.does("UNLOCK", network, "", 403)
		a.refused("LOCK", network, lockInfo("second"), 423, "first")
		writes, wrote := make(chan struct{}), make(chan struct{})
		s.during = func(ctx context.Context) {
			close(writes)
			<-ctx.Done()
			close(wrote)
		}
		go func() { _, _ = http.Post(a.url+network+"?ID=first", "application/json", strings.NewReader("{}")) }()
		errtest.Received(t, "the write", writes)
		b.does("UNLOCK", network+"?operator=yes", "", 200)
		errtest.None(t, testserver.Until(func() (bool, error) {
			_, err := b.Mutex(networkLock).TryAcquire(t.Context())
			if errors.Is(err, interlock.ErrBusy) {
				return false, nil
			}
			return true, err
		}))
		select {
		case <-wrote:
		default:
			t.Error("the lock is another's, and the context of the write has not ended")
		}
	})
}

// Promise: a lock whose client is gone ends with its time. A write of the holder begins that anew, through any server,
// and the server that has given the lock does not end it sooner.
func TestStateIsLockedForItsTimeFromTheLastWrite(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		a, b := serveStates(t, url, time.Second, s), serveStates(t, url, time.Hour, s)
		a.does("LOCK", network, lockInfo("gone"), 200)
		errtest.None(t, testserver.Until(func() (bool, error) {
			q, err := b.Admin().Queue(t.Context(), networkLock)
			return len(q.Holders) == 0, err
		}))
		before := a.losses.Load()
		errtest.None(t, testserver.Until(func() (bool, error) { // a busy machine may take longer than the time of the lock
			a.does("LOCK", network, lockInfo("first"), 200)
			r, err := http.Post(b.url+network+"?ID=first", "application/json", strings.NewReader("{}"))
			if err != nil {
				return false, err
			}
			return r.StatusCode == 200, r.Body.Close()
		}))
		errtest.None(t, testserver.Until(func() (bool, error) { return a.losses.Load() > before, nil }))
		a.refused("LOCK", network, lockInfo("second"), 423, "first")
		a.does("POST", network+"?ID=first", "{}", 200)
		b.does("UNLOCK", network, lockInfo("first"), 200)
	})
}

func init() {
	holders["state"] = func(url string) error {
		c, err := openHolder(url)
		if err == nil {
			_, err = c.Mutex("server").Acquire(context.Background())
		}
		if err != nil {
			return err
		}
		s := &states{bodies: map[string]string{}, during: func(context.Context) { holds() }}
		return serves(statelock.New(c, "terraform", time.Hour, s))
	}
}

// Promise: a state stays locked when the server that has given the lock is killed in the middle of a write, also when
// its own locks are free. The client goes on at another server.
func TestStateStaysLockedWhenTheServerIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		p, said := begin(t, "state", url)
		a := stateServer{t, nil, errtest.Received(t, "the server", said)}
		b := serveStates(t, url, time.Hour, &states{bodies: map[string]string{}})
		a.does("LOCK", network, lockInfo("first"), 200)
		go func() { _, _ = http.Post(a.url+network+"?ID=first", "application/json", strings.NewReader("{}")) }()
		errtest.Received(t, "the write", said)
		p.Kill()
		_, err := b.Mutex("server").Acquire(t.Context())
		errtest.None(t, err)
		b.refused("LOCK", network, lockInfo("second"), 423, "first")
		b.refused("POST", network+"?ID=second", "{}", 423, "first")
		b.does("LOCK", network, lockInfo("first"), 200)
		b.does("POST", network+"?ID=first", "{}", 200)
		b.does("UNLOCK", network, lockInfo("first"), 200)
		b.does("LOCK", network, lockInfo("second"), 200)
	})
}

// Promise: the context of a write ends when the lock is lost.
func TestStateWriteIsToldThatTheLockIsLost(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		s := &states{bodies: map[string]string{}}
		a := serveStates(t, url, time.Hour, s)
		s.during = func(ctx context.Context) {
			errtest.Is(t, a.loses(ctx, networkLock, true), nil, "the loss")
			errtest.Is(t, ended(ctx), interlock.ErrLost, "the context of the write")
		}
		a.does("LOCK", network, lockInfo("first"), 200)
		a.does("POST", network+"?ID=first", "{}", 200)
	})
}

// Promise: a lock of another program on the same name is shown as a LockInfo, too.
func TestStateShowsTheLockOfAnotherProgram(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		a := serveStates(t, url, time.Hour, &states{bodies: map[string]string{}})
		lease := errtest.Must(a.Mutex(networkLock, interlock.Note("a backup")).Acquire(t.Context()))(t)
		ticket, _, _ := strings.Cut(lease.ID(), ".")
		a.refused("LOCK", network, lockInfo("first"), 423, ticket)
		errtest.None(t, lease.Release())
	})
}

// Promise: the lock of another program keeps out every write, and no client ends or prolongs it, also one that has a
// fixed end as those of Terraform have.
func TestStateIsNotWrittenUnderTheLockOfAnotherProgram(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		allow := statelock.AllowForce(func(*http.Request) bool { return true })
		a := serveStates(t, url, time.Hour, &states{bodies: map[string]string{}}, allow)
		for _, o := range []interlock.Option{interlock.Note("a backup"), interlock.ExpiresAfter(2 * time.Hour)} {
			lease := errtest.Must(a.Mutex(networkLock, o).Acquire(t.Context()))(t)
			ticket, _, _ := strings.Cut(lease.ID(), ".")
			until := lease.Deadline()
			for _, path := range []string{network, network + "?ID=first", network + "?ID=" + ticket} {
				a.does("POST", path, "{}", 423)
				a.does("DELETE", path, "", 423)
			}
			a.does("UNLOCK", network, "", 409)
			a.does("UNLOCK", network, lockInfo("first"), 409)
			if at := lease.Deadline(); lease.Err() != nil || until.Sub(at) > time.Minute {
				t.Errorf("the lock ends at %v, not at %v: %v", at, until, lease.Err())
			}
			errtest.None(t, lease.Release())
		}
	})
}

// Promise: a server of one state has it at "/", and a time that no lock has is refused at once.
func TestStateAtTheRootAndWrongTimes(t *testing.T) {
	t.Parallel()
	a := serveStates(t, redis.Lend(t).URL(), time.Hour, &states{bodies: map[string]string{}})
	a.does("LOCK", "/", lockInfo("first"), 200)
	a.does("POST", "/?ID=first", "{}", 200)
	a.refused("POST", "/", "{}", 423, "first")
	for _, hold := range []time.Duration{0, -time.Second, 1_000_000 * time.Hour} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a lock for %v", hold)
				}
			}()
			statelock.New(a.Client, "terraform", hold, nil)
		}()
	}
}

// Promise: without a backend the client is asked to try again.
func TestStateAsksToTryAgainWithoutABackend(t *testing.T) {
	t.Parallel()
	redis := errtest.Must(redis.Run(t.TempDir()))(t)
	c := errtest.Must(interlock.Open(t.Context(), redis.URL(), interlock.TTL(time.Second)))(t) // Close takes as long
	defer c.Close()
	h := statelock.New(c, "terraform", time.Hour, &states{bodies: map[string]string{}})
	redis.Stop()
	for _, method := range []string{"LOCK", "UNLOCK", "POST"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, network+"?ID=first", strings.NewReader(lockInfo("first"))))
		if w.Code != 503 {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}

func Example_terraform() {
	client, err := interlock.Open(context.Background(), "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	server := httptest.NewServer(statelock.New(client, "terraform", time.Hour, &states{bodies: map[string]string{}}))
	defer server.Close()
	for _, id := range []string{"first", "second"} {
		r, err := http.NewRequest("LOCK", server.URL+"/state/network", strings.NewReader(lockInfo(id)))
		if err != nil {
			log.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(a.Status)
		_ = a.Body.Close()
	}
	// Output:
	// 200 OK
	// 423 Locked
}
