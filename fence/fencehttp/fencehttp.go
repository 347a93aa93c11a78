// Package fencehttp carries fencing tokens over HTTP: a client sends the token of its lease, and
// the server refuses a request whose token is smaller than one that it has seen.
//
// The client:
//
//	client := &http.Client{Transport: &fencehttp.Transport{}}
//	err := lock.Do(ctx, func(ctx context.Context) error {
//		r, err := http.NewRequestWithContext(ctx, "PUT", url, body) // ctx carries the lease
//		…
//		resp, err := client.Do(r)
//		if err == nil {
//			err = fencehttp.Stale(resp) // fence.ErrStale if another has the lock
//		}
//		…
//
// The server:
//
//	guard := fencehttp.Guard{Store: &fence.Memory{}}
//	http.ListenAndServe(addr, guard.Wrap(handler))
//
// The token is the header [Header], a decimal number. The answers of the server that are not the
// handler's:
//
//   - 412 Precondition Failed: a larger token has been seen, which the header [SeenHeader] of the
//     answer has. The lock has passed to another: stop the work.
//   - 428 Precondition Required: the request has no token, and needs one.
//   - 414 URI Too Long: the name of the resource has more than 512 bytes.
//   - 400 Bad Request: the token is not a number that a lock could have given, or there are two.
//   - 503 Service Unavailable: the store has failed. Nothing was done.
//
// The clients are trusted: whoever can reach the server can send any token, and a very large one
// locks everybody else out.
package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
)

const (
	Header     = "Fencing-Token"      // of a request
	SeenHeader = "Fencing-Token-Seen" // of an answer of 412
)

// Transport sends the token of the lease that the request's context carries (interlock.LeaseFrom)
// with each request. It sends nothing if there is no lease, if the lease has ended, with its
// Lease.Err, or if its token cannot be compared (fence.ErrNotComparable): that of a reader, of a
// permit, or of several locks that are held as one. A request that has the header already is sent
// as it is: see [Set].
type Transport struct {
	Base http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip is http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, there := r.Header[Header]; !there {
		var err error
		if r, err = withLease(r); err != nil {
			return nil, err
		}
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(r)
}

// withLease is the request with the token of its context's lease. A RoundTripper must not change
// a request, and must close its body.
func withLease(r *http.Request) (*http.Request, error) {
	lease := interlock.LeaseFrom(r.Context())
	var err error
	if lease != nil {
		err = lease.Err()
	}
	fenced := r.Clone(r.Context())
	if err == nil {
		err = Set(fenced, lease)
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return fenced, nil
}

// Set gives a request the token of a grant, such as a part of the lease of interlock.All.
func Set(r *http.Request, g fence.Grant) error {
	token, err := fence.TokenOf(g)
	if err != nil {
		return err
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set(Header, strconv.FormatUint(uint64(token), 10))
	return nil
}

// Stale returns a *fence.StaleError, an ErrStale, if the server has refused the request because of
// its token, and nil for every other answer.
func Stale(r *http.Response) error {
	if r.StatusCode != http.StatusPreconditionFailed || r.Header.Get(SeenHeader) == "" {
		return nil
	}
	stale := &fence.StaleError{Resource: "of the server"}
	if r.Request != nil {
		stale.Resource = r.Request.URL.Redacted()
		stale.Token, _ = strconv.ParseUint(r.Request.Header.Get(Header), 10, 64)
	}
	stale.Seen, _ = strconv.ParseUint(r.Header.Get(SeenHeader), 10, 64)
	return stale
}

// Guard checks the token of each request before a handler gets it.
type Guard struct {
	Store fence.Store // where the tokens are kept

	// Resource names what a request is about, in the same way for all requests about it, with 1
	// to 512 bytes. nil: the path of the URL. Names should be of resources that exist: some
	// stores keep each for ever.
	Resource func(*http.Request) string

	// Optional lets requests without a token pass. Otherwise only those with the methods GET,
	// HEAD and OPTIONS do. A token that is there is always checked.
	Optional bool
}

// Wrap is a handler that gives h the requests that are not refused. While h has a request, none
// about the same resource is accepted that has a larger token, in no process that uses the same
// store. So h should be short, and the server should have time limits for slow clients.
//
// h finds the token with [TokenFrom], for checks in transactions of its own.
func (g Guard) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := tokenIn(r)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case token == 0 && (g.Optional || isSafe(r.Method)):
			h.ServeHTTP(w, r)
			return
		case token == 0:
			http.Error(w, "the header "+Header+" is missing: send the token of the lock", http.StatusPreconditionRequired)
			return
		}
		resource := r.URL.Path
		if g.Resource != nil {
			resource = g.Resource(r)
		}
		if len(resource) > mostName {
			http.Error(w, "the name of the resource is too long", http.StatusRequestURITooLong)
			return
		}
		served := false
		err = g.Store.Do(r.Context(), resource, token, func() error {
			served = true
			h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tokenKey{}, token)))
			return nil
		})
		if served || err == nil {
			return
		}
		var stale *fence.StaleError
		if errors.As(err, &stale) {
			w.Header().Set(SeenHeader, strconv.FormatUint(stale.Seen, 10))
			http.Error(w, fmt.Sprintf("%v: %d, but %d has been seen", fence.ErrStale, stale.Token, stale.Seen), http.StatusPreconditionFailed)
			return
		}
		http.Error(w, "the tokens cannot be checked now", http.StatusServiceUnavailable)
	})
}

// mostName is the longest name of a resource: stores keep it.
const mostName = 512

type tokenKey struct{}

// TokenFrom returns the token of a request that [Guard] has accepted, by its context. It is 0 if
// the request had none, which every check refuses.
func TokenFrom(ctx context.Context) fence.Token {
	token, _ := ctx.Value(tokenKey{}).(fence.Token)
	return token
}

// tokenIn is the token of a request, 0 if it has none.
func tokenIn(r *http.Request) (fence.Token, error) {
	values := r.Header.Values(Header)
	if len(values) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(values[0], 10, 64)
	if len(values) > 1 || err != nil || n == 0 || n > math.MaxInt64 {
		return 0, errors.New("the header " + Header + " is not one decimal number from 1 to 2^63-1")
	}
	return fence.Token(n), nil
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
