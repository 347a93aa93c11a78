package httplock

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/drivertest/primitives"
)

func TestMain(m *testing.M) { drivertest.Main(m) }

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Backend{World: world, TTL: time.Second / 2, Small: true, Unsupported: map[string]string{
		"Stranger":              noRights,
		"NoRights":              noRights,
		"Member":                noRights,
		"StoppedInAChange":      "a change is one request, which the server makes as a whole",
		"OtherUser":             "a server has the files",
		"NeighbourInTheProcess": "a server has the files",
	}})
}

func TestPrimitives(t *testing.T) {
	primitives.Run(t, primitives.Backend{World: world, TTL: time.Second / 2})
}

const noRights = "the example asks nobody who it is"

// world is a server of its own, which can be stopped before it takes a request, before it answers,
// and before it sends an event.
func world(t testing.TB) drivertest.World {
	server := NewServer()
	var requests, answers, events gate
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.pass(r.Context())
		if r.URL.Query().Has("mailbox") {
			server.ServeHTTP(&lossy{w, &events}, r)
			return
		}
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r)
		answers.pass(r.Context())
		w.WriteHeader(answer.Code)
		_, _ = answer.Body.WriteTo(w)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return drivertest.World{
		URL:          front.URL,
		Open:         func(ctx context.Context) (driver.Driver, error) { return openURL(ctx, front.URL) },
		Hang:         requests.close,
		Late:         answers.close,
		LoseMessages: events.close,
		Via: func(ctx context.Context, at func(string) string) (driver.Driver, error) {
			return openURL(ctx, "http://"+at(strings.TrimPrefix(front.URL, "http://")))
		},
		Unreachable: func(ctx context.Context) error {
			d, err := openURL(ctx, "http://127.0.0.1:1")
			if err != nil {
				return err
			}
			defer d.Close()
			_, err = d.Open(ctx, driver.SessionOptions{TTL: time.Second})
			return err
		},
	}
}

func openURL(ctx context.Context, text string) (driver.Driver, error) {
	u, err := driver.ParseURL(text)
	if err != nil {
		return nil, err
	}
	return driver.OpenURL(ctx, u)
}

// gate is open unless somebody has closed it.
type gate struct {
	mu     sync.Mutex
	closed chan struct{}
}

func (g *gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.closed)
		g.closed = nil
	})
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) {
	if closed := g.state(); closed != nil {
		select {
		case <-closed:
		case <-ctx.Done():
		}
	}
}

func (g *gate) state() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// lossy loses events while its gate is closed.
type lossy struct {
	http.ResponseWriter
	gate *gate
}

func (l *lossy) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *lossy) Write(event []byte) (int, error) {
	if l.gate.state() != nil {
		return len(event), nil
	}
	return l.ResponseWriter.Write(event)
}
