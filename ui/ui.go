// Package ui is a page that shows the locks of a backend, and their JSON, as an [http.Handler].
//
//	c, err := interlock.Open(ctx, url)
//	…
//	h := ui.New(c, ui.Config{Backend: "redis://locks"})
//	http.Handle("/locks/", http.StripPrefix("/locks", adminsOnly(h)))
//
// The command interlock ui serves it on a port of its own.
//
// It shows who holds and who waits, a lock with its queue and its last grants, who waits for whom, the longest waits,
// what is stored, and what Check finds. It changes something only with [Config].AllowChanges.
//
// # What it costs
//
// A page lists the locks of the backend once a second at most, and for a tenth of the time at most, for all who look
// together; nothing while no page is open and visible. An open lock is read once a second at most, too.
// History is kept in the memory of the handler: 50 grants of each of 5,000 locks, and the 500 longest waits. Eight answers
// are made and sent at once: a WriteTimeout of the server keeps slow readers from taking the place of others. Streams
// go on beyond it.
//
// # Who may look
//
// With [Config].Token or [Config].Password the handler asks for it, and without both it serves each request: then the
// program that mounts it must let no one else in. All answers have a strict Content-Security-Policy, no other site may
// frame or read them, and requests that change something must come from the page itself.
package ui

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/view"
)

// Config says what a page shows, and to whom.
type Config struct {
	Backend string // how the page calls the backend; a URL without its password

	// AllowChanges lets visitors revoke, evict, set a latch and delete a value.
	AllowChanges bool

	// Token lets one browser in, which opens the page with ?token= once, and gets a cookie for it. Programs send it
	// with each request, as "Authorization: Bearer". It has to be long and random.
	Token string

	// Password lets visitors in who give it, with any user name, when their browser asks (HTTP Basic); programs send it
	// as Token.
	Password string

	// UserHeader is the header in which a proxy in front says who the visitor is. Requests without it are refused.
	UserHeader string

	// Hosts are the values of Host, without the port, that are served. None means all: then the program that mounts the
	// handler checks them, or a name that leads to this machine from elsewhere can reach it.
	Hosts []string

	// Log is told of each change and each refusal. Nil: slog.Default.
	Log *slog.Logger

	// Pages are shown beside the pages of this package.
	Pages []Page
}

// Page is a page of the program that mounts the handler: behind the same checks as the other pages, and in their frame.
type Page struct {
	Path, Title string // "demo" is the page /demo

	// Main writes the middle of the page, as HTML.
	Main func(w io.Writer, r *http.Request) error

	// News returns a channel that is closed at the next change. The page shows itself anew then, five times a second at
	// most, and once a second at least. Nil: it never does.
	News func() <-chan struct{}

	// Below serves what is below the page, such as /demo/change, where it sees /change. Nil: nothing is.
	Below http.Handler
}

// Handler serves the page. Its URLs are relative, so that it works below any prefix that is stripped.
type Handler struct {
	c       *interlock.Client
	cfg     Config
	log     *slog.Logger
	sampler *view.Sampler
	history *view.History
	doors   *doors
	serve   http.Handler
	streams atomic.Int64 // that are open

	answering chan struct{} // one for each answer in memory

	silent atomic.Int64 // when a page has waited in vain, in Unix nanoseconds

	deadlocks once[[]interlock.Deadlock]
	findings  once[[]interlock.Finding]
}

//go:embed pages static
var files embed.FS

// pages are the templates, by name: each is the frame with one page in it.
var pages = func() map[string]*template.Template {
	frame := template.Must(template.New("frame.html").Funcs(functions).ParseFS(files, "pages/frame.html", "pages/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range []string{"locks", "lock", "waits", "longest", "stored", "checks", "change", "message", "own"} {
		all[name] = template.Must(template.Must(frame.Clone()).ParseFS(files, "pages/"+name+".html"))
	}
	return all
}()

// New returns a handler that shows the locks of a client. The client stays open; the handler has nothing to be closed.
func New(c *interlock.Client, cfg Config) *Handler {
	h := &Handler{c: c, cfg: cfg, log: cfg.Log, history: view.NewHistory(), doors: newDoors(cfg), answering: make(chan struct{}, mostAnswers)}
	if h.log == nil {
		h.log = slog.Default()
	}
	h.sampler = view.NewSampler(c, "", h.history)
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // it is embedded
	}
	m, all := http.NewServeMux(), http.NewServeMux()
	all.Handle("/", h.inTurn(m))
	all.Handle("GET /static/", http.StripPrefix("/static", http.FileServerFS(static)))
	all.HandleFunc("GET /api/events", h.choosing(100, h.apiEvents))
	m.HandleFunc("GET /{$}", h.choosing(rowsShown, h.showLocks))
	m.HandleFunc("GET /lock", h.choosing(100, h.showLock))
	m.HandleFunc("GET /waits", h.showWaits)
	m.HandleFunc("GET /longest", h.showLongest)
	m.HandleFunc("GET /stored", h.showStored)
	m.HandleFunc("GET /checks", h.showChecks)
	m.HandleFunc("GET /change", h.askChange)
	m.HandleFunc("POST /change", h.change)
	m.HandleFunc("GET /api/locks", h.answers(h.apiLocks))
	m.HandleFunc("GET /api/locks/{name...}", h.answers(h.apiLock))
	m.HandleFunc("GET /api/waits", h.answers(h.apiWaits))
	m.HandleFunc("GET /api/longest", h.answers(h.apiLongest))
	m.HandleFunc("GET /api/stored", h.answers(h.apiStored))
	m.HandleFunc("GET /api/checks", h.answers(h.apiChecks))
	m.HandleFunc("GET /metrics", h.metrics)
	for _, own := range cfg.Pages {
		m.HandleFunc("GET /"+own.Path, h.showOwn(own))
		if own.News != nil {
			all.HandleFunc("GET /"+own.Path+"/events", func(w http.ResponseWriter, r *http.Request) {
				h.stream(w, r, true, func(ctx context.Context) iter.Seq2[any, error] { return newsOf(ctx, own.News) })
			})
		}
		if own.Below != nil {
			m.Handle("/"+own.Path+"/", http.StripPrefix("/"+own.Path, own.Below))
		}
	}
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			h.refuse(w, r, http.StatusMethodNotAllowed, "This address takes GET only.")
			return
		}
		h.refuse(w, r, http.StatusNotFound, "There is no such page.")
	})
	h.serve = h.guarded(all)
	return h
}

// mostAnswers is how many answers are made and sent at once: each can have 25 MB, which is in memory until its reader has
// taken it.
const mostAnswers = 8

// inTurn serves a few requests at once. Streams take their turn with each state that they send.
func (h *Handler) inTurn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		waiting, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		select {
		case h.answering <- struct{}{}:
			defer func() { <-h.answering }()
		case <-waiting.Done():
			w.Header().Set("Retry-After", "5")
			http.Error(w, fmt.Sprintf("%d others are being answered: try again.", mostAnswers), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve.ServeHTTP(w, r) }

// Record keeps the history also while no page is open: it lists the locks so often, until ctx ends.
func (h *Handler) Record(ctx context.Context, every time.Duration) {
	for wait := time.Duration(0); backoff.Sleep(ctx, wait) == nil; wait = every {
		if _, err := h.sampler.Next(ctx, time.Now().Add(-every)); err != nil {
			return
		}
	}
}

// patience is how long a page waits for the backend.
const patience = 5 * time.Second

// patiently bounds how long a page waits. Once one has waited in vain, all others wait for a tenth of that time, during
// twice that time.
func patiently[T any](ctx context.Context, h *Handler, read func(context.Context) (T, error)) (T, error) {
	limit := patience
	if time.Now().UnixNano()-h.silent.Load() < int64(2*patience) {
		limit = patience / 10
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := read(bounded)
	if bounded.Err() != nil && ctx.Err() == nil && limit == patience {
		h.silent.Store(time.Now().UnixNano())
	}
	return v, err
}

// once keeps what is dear to ask for ten seconds, so that many visitors ask once.
type once[T any] struct {
	mu  sync.Mutex
	at  time.Time
	was T
	err error
}

func (o *once[T]) get(ask func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.at) > 10*time.Second {
		o.was, o.err = ask()
		o.at = time.Now()
	}
	return o.was, o.err
}
