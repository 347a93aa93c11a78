// Package tusdlock lets several servers of tusd (github.com/tus/tusd/v2), in one process or in many, serve uploads in
// one store:
//
//	import (
//		"github.com/tus/tusd/v2/pkg/filestore"
//		"github.com/tus/tusd/v2/pkg/handler"
//	)
//
//	composer := handler.NewStoreComposer()
//	filestore.New("uploads").UseIn(composer)
//	locker := tusdlock.New(client, "uploads")
//	composer.UseLocker(locker)
//	uploads, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
//	…
//	http.Handle("/files/", http.StripPrefix("/files/", locker.Wrap(uploads)))
package tusdlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/byname"
)

// Locker is a Locker of tusd, for all its stores. The handler of tusd is served through [Locker.Wrap].
type Locker struct {
	client *interlock.Client
	prefix string
	opts   []interlock.Option
}

var _ handler.Locker = (*Locker)(nil)

// New returns a Locker whose mutexes have the names prefix/id, of the IDs of uploads. An ID that is too long, or
// otherwise not a name of Interlock, is its SHA-256 in hex instead. Servers that share a store use one prefix.
func New(c *interlock.Client, prefix string, opts ...interlock.Option) *Locker {
	return &Locker{client: c, prefix: prefix, opts: opts}
}

// Wrap returns a handler which gives the bodies of requests to h as long as their locks are held. tusd is told of a
// loss, and ends its request: a server that stood still would write first what it has received meanwhile, behind what
// another server has written. What h had read before is written all the same.
func (l *Locker) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &body{ReadCloser: r.Body}
		r = r.WithContext(context.WithValue(r.Context(), inRequest{}, b))
		r.Body = b
		h.ServeHTTP(w, r)
	})
}

// inRequest is the key of the body in the context of a request.
type inRequest struct{}

// body is the body of a request. It ends when the lock of the request is lost.
type body struct {
	io.ReadCloser
	lease atomic.Pointer[interlock.Lease]
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if lease := b.lease.Load(); lease != nil && lease.Remaining() == 0 {
		return 0, handler.ErrUploadInterrupted
	}
	return n, err
}

// NewLock returns the lock of an upload, for one request.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	// With StrictOrder each request has a ticket of its own, which another request can revoke.
	mutex := l.client.Mutex(byname.Under(l.prefix, id), l.opts...).With(interlock.StrictOrder())
	return &lock{mutex: mutex, admin: l.client.Admin()}, nil
}

type lock struct {
	mutex *interlock.Lock
	admin interlock.Admin
	lease *interlock.Lease // after Lock
}

// Lock waits until the lock is held, or ctx ends: then the error is [handler.ErrLockTimeout], or wraps
// [interlock.ErrUnavailable] if the backend has not answered. While it waits, it asks each holder, on any server, to
// unlock.
//
// It fails if the request has not come through [Locker.Wrap].
//
// Once the lock is held, requestUnlock is called when another request asks for the lock, and when the lock is lost:
// tusd ends its request in both cases.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	request, ok := ctx.Value(inRequest{}).(*body)
	if !ok {
		return errors.New("tusdlock: the request has not come through Locker.Wrap")
	}
	lease, err := l.mutex.TryAcquire(ctx)
	if interlock.Retryable(err) {
		lease, err = l.wait(ctx)
	}
	switch {
	case err == nil:
		l.lease = lease
		request.lease.Store(lease)
		go follow(lease, requestUnlock)
		return nil
	case errors.Is(err, interlock.ErrUnavailable):
		return err
	case errors.Is(err, interlock.ErrBusy), ctx.Err() != nil:
		return handler.ErrLockTimeout
	}
	return err
}

func (l *lock) wait(ctx context.Context) (*interlock.Lease, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go l.ask(asking)
	return l.mutex.Acquire(ctx)
}

// ask revokes each holder until ctx ends. A holder that this finds may be the request that it asks for, which has
// stopped to wait: it is revoked if others wait, as they would do.
func (l *lock) ask(ctx context.Context) {
	asked := ""
	for q, err := range l.admin.Follow(ctx, l.mutex.Name()) {
		if err != nil {
			return // it will be the same next time: Acquire says so
		}
		if len(q.Waiters) == 0 || len(q.Holders) == 0 || q.Holders[0].ID == asked {
			continue
		}
		asked = q.Holders[0].ID
		_ = l.admin.Revoke(ctx, l.mutex.Name(), asked) // one that is gone needs no request
	}
}

// follow calls requestUnlock at most once, and ends with the lease.
func follow(lease *interlock.Lease, requestUnlock func()) {
	select {
	case <-lease.Revoked():
	case <-lease.Done():
		if !errors.Is(lease.Err(), interlock.ErrLost) {
			return // Unlock
		}
	}
	requestUnlock()
}

// Unlock releases the lock, within one TTL even if the backend is away. The error wraps [interlock.ErrLost] if the lock
// was lost before, or ran out before the backend had it back; tusd drops it.
func (l *lock) Unlock() error {
	if l.lease == nil {
		return fmt.Errorf("release %q: it is not locked: %w", l.mutex.Name(), interlock.ErrReleased)
	}
	return l.lease.Release()
}
