package fencehttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/fence/fencehttp"
	"github.com/interlock-go/interlock/internal/errtest"
)

const patience = time.Minute

// serve starts a server whose handler tells the token that it was given.
func serve(t *testing.T, guard fencehttp.Guard, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(guard.Wrap(h))
	t.Cleanup(s.Close)
	return s.URL
}

func request(t *testing.T, method, url string, tokens ...string) *http.Response {
	t.Helper()
	r := errtest.Must(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	for _, token := range tokens {
		r.Header.Add(fencehttp.Header, token)
	}
	resp := errtest.Must(http.DefaultClient.Do(r))(t)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp
}

// Promise: the handler gets the requests with the largest token of their resource, and no others.
func TestEachAnswerOfTheGuard(t *testing.T) {
	var served atomic.Int64
	url := serve(t, fencehttp.Guard{Store: &fence.Memory{}}, func(_ http.ResponseWriter, r *http.Request) {
		served.Store(int64(fencehttp.TokenFrom(r.Context())))
	})
	for _, c := range []struct {
		method, path string
		tokens       []string
		want         int
	}{
		{"PUT", "/a", []string{"5"}, 200},
		{"PUT", "/a", []string{"5"}, 200},
		{"PUT", "/a", []string{"4"}, 412},
		{"GET", "/a", []string{"4"}, 412}, // what is read under a stale token is not to be used
		{"PUT", "/b", []string{"4"}, 200},
		{"PUT", "/a", []string{"9223372036854775807"}, 200},
		{"PUT", "/a", []string{"5"}, 412},
		{"PUT", "/c", nil, 428},
		{"DELETE", "/c", nil, 428},
		{"GET", "/c", nil, 200},
		{"HEAD", "/c", nil, 200},
		{"PUT", "/c", []string{"5", "6"}, 400},
		{"PUT", "/c", []string{""}, 400},
		{"PUT", "/c", []string{"0"}, 400},
		{"GET", "/c", []string{"x"}, 400},
		{"PUT", "/c", []string{"-1"}, 400},
		{"PUT", "/c", []string{"+1"}, 400},
		{"PUT", "/c", []string{"1,2"}, 400},
		{"PUT", "/c", []string{"0x10"}, 400},
		{"PUT", "/c", []string{"9223372036854775808"}, 400},
	} {
		served.Store(-1)
		resp := request(t, c.method, url+c.path, c.tokens...)
		if resp.StatusCode != c.want {
			t.Errorf("%s %s with %q: got %s, want %d", c.method, c.path, c.tokens, resp.Status, c.want)
		}
		if (served.Load() >= 0) != (c.want == 200) {
			t.Errorf("%s %s with %q: the handler was given token %d", c.method, c.path, c.tokens, served.Load())
		}
		var stale *fence.StaleError
		if err := fencehttp.Stale(resp); (c.want == 412) != errors.As(err, &stale) {
			t.Errorf("%s %s with %q: Stale says %v", c.method, c.path, c.tokens, err)
		}
	}
	optional := serve(t, fencehttp.Guard{Store: &fence.Memory{}, Optional: true}, func(http.ResponseWriter, *http.Request) {})
	if resp := request(t, "PUT", optional); resp.StatusCode != 200 {
		t.Errorf("without a token, which is optional: %s", resp.Status)
	}
}

// Promise: a 412 of the handler itself is not taken for a stale token.
func TestThe412OfTheHandlerIsItsOwn(t *testing.T) {
	url := serve(t, fencehttp.Guard{Store: &fence.Memory{}}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPreconditionFailed)
	})
	if err := fencehttp.Stale(request(t, "PUT", url, "5")); err != nil {
		t.Errorf("got %v", err)
	}
}

// failing is a store that does not answer.
type failing struct{}

func (failing) Do(context.Context, string, fence.Grant, func() error) error {
	return errors.New("the password of the store is hunter2")
}

// Promise: a store that fails lets nothing through, and its error is not for the client.
func TestAStoreThatFailsLetsNothingThrough(t *testing.T) {
	guard := fencehttp.Guard{Store: failing{}}
	h := guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was given a request") }))
	r := httptest.NewRequest("PUT", "/", nil)
	r.Header.Set(fencehttp.Header, "5")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
}

// Promise: a larger token is not accepted while the handler has a request with a smaller one; for
// another resource it is.
func TestALargerTokenWaitsForTheHandler(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	url := serve(t, fencehttp.Guard{Store: &fence.Memory{}}, func(_ http.ResponseWriter, r *http.Request) {
		switch {
		case fencehttp.TokenFrom(r.Context()) == 5:
			close(begun)
			<-end
			ended.Store(true)
		case r.URL.Path == "/a" && !ended.Load():
			t.Error("two are at work")
		}
	})
	slow, next := make(chan int, 1), make(chan int, 1)
	go func() { slow <- request(t, "PUT", url+"/a", "5").StatusCode }()
	<-begun
	go func() { next <- request(t, "PUT", url+"/a", "6").StatusCode }()
	if resp := request(t, "PUT", url+"/b", "6"); resp.StatusCode != 200 {
		t.Errorf("another resource: %s", resp.Status)
	}
	close(end)
	for _, got := range []chan int{slow, next} {
		select {
		case code := <-got:
			if code != 200 {
				t.Errorf("got %d", code)
			}
		case <-time.After(patience):
			t.Fatal("no answer has come")
		}
	}
}

// Promise: the transport sends the token of the context's lease, and nothing without one.
func TestTheTransportSendsTheTokenOfTheLease(t *testing.T) {
	got := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get(fencehttp.Header) }))
	defer s.Close()
	client := &http.Client{Transport: &fencehttp.Transport{}}
	send := func(ctx context.Context, token string) error {
		r := errtest.Must(http.NewRequestWithContext(ctx, "PUT", s.URL, strings.NewReader("x")))(t)
		if token != "" {
			r.Header.Set(fencehttp.Header, token)
		}
		resp, err := client.Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		if token == "" && r.Header.Get(fencehttp.Header) != "" {
			t.Error("the transport has changed the caller's request")
		}
		return err
	}
	locks := errtest.Must(interlock.New(t.Context(), memlock.NewWorld().Driver()))(t)
	defer locks.Close()
	var after context.Context
	err := locks.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
		after = ctx
		if err := send(ctx, ""); err != nil {
			return err
		}
		r := httptest.NewRequest("PUT", "/", nil)
		if err := fencehttp.Set(r, interlock.LeaseFrom(ctx)); err != nil {
			return err
		}
		if token := <-got; token == "" || token != r.Header.Get(fencehttp.Header) {
			t.Errorf("the server got %q, want %q", token, r.Header.Get(fencehttp.Header))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t.Context(), "7"); err != nil || <-got != "7" {
		t.Errorf("a token that was set by hand: %v", err)
	}
	errtest.Is(t, send(context.WithoutCancel(after), ""), interlock.ErrReleased, "after the release")
	errtest.Is(t, send(t.Context(), ""), fence.ErrNotComparable, "without a lease")
	if err := locks.RWMutex("b").Reader().Do(t.Context(), func(ctx context.Context) error { return send(ctx, "") }); !errors.Is(err, fence.ErrNotComparable) {
		t.Errorf("a reader: got %v, want ErrNotComparable", err)
	}
	if len(got) > 0 {
		t.Errorf("the server got %q", <-got)
	}
}

// Promise: whoever can send requests makes the server keep names of bounded length, and a bounded number of them.
func TestNamesOfRequestsTakeBoundedMemory(t *testing.T) {
	url := serve(t, fencehttp.Guard{Store: &fence.Memory{Most: 2}}, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		path string
		want int
	}{
		{"/" + strings.Repeat("x", 512), http.StatusRequestURITooLong},
		{"/" + strings.Repeat("x", 511), http.StatusOK},
		{"/b", http.StatusOK},
		{"/c", http.StatusServiceUnavailable},
		{"/b", http.StatusOK},
	} {
		if got := request(t, "PUT", url+c.path, "5").StatusCode; got != c.want {
			t.Errorf("%.10s: status %d, not %d", c.path, got, c.want)
		}
	}
}

// Promise: a request that waits for another one about its resource ends with its client.
func TestARequestThatWaitsEndsWithItsClient(t *testing.T) {
	var store fence.Memory
	begun, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	go store.Do(t.Context(), "a", fence.Token(1), func() error { close(begun); <-end; return nil })
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- store.Do(ctx, "a", fence.Token(2), func() error { return nil }) }()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, not the end of its context", err)
		}
	case <-time.After(patience):
		t.Error("it waits on")
	}
}
