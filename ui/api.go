package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/view"
	"github.com/interlock-go/interlock/metrics"
)

// mostRows is how many rows a page of an answer has at most.
const mostRows = 1000

// want is what the query of a request asks for.
type want struct {
	view.Choice
	Offset, Limit int
}

// wanted reads a query. Limit is what is shown if the query does not say it.
func wanted(q url.Values, limit int) (want, error) {
	w := want{Choice: view.Choice{Text: q.Get("text"), Owner: q.Get("owner"), Order: q.Get("order")}, Limit: limit}
	if w.Order == "" {
		w.Order = "waiting"
	}
	err := w.Check()
	if s := q.Get("waiting"); s != "" && err == nil {
		if w.Waiting, err = strconv.ParseBool(s); err != nil {
			err = fmt.Errorf("waiting=%q: 1 or 0 is wanted", s)
		}
	}
	if s := q.Get("older"); s != "" && err == nil {
		if w.Older, err = time.ParseDuration(s); err != nil || w.Older < 0 {
			err = fmt.Errorf("older=%q: a duration such as 30s or 1h is wanted", s)
		}
	}
	for name, to := range map[string]*int{"offset": &w.Offset, "limit": &w.Limit} {
		s := q.Get(name)
		if s == "" || err != nil {
			continue
		}
		if *to, err = strconv.Atoi(s); err != nil || *to < 0 {
			err = fmt.Errorf("%s=%q: a whole number is wanted", name, s)
		}
	}
	if err == nil && (w.Limit < 1 || w.Limit > mostRows) {
		err = fmt.Errorf("limit=%d: 1 to %d are possible", w.Limit, mostRows)
	}
	return w, err
}

// choosing serves requests whose query makes sense.
func (h *Handler) choosing(limit int, next func(http.ResponseWriter, *http.Request, want)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wants, err := wanted(r.URL.Query(), limit)
		if err != nil {
			h.refuse(w, r, http.StatusBadRequest, err.Error())
			return
		}
		next(w, r, wants)
	}
}

// answers serves what a function returns, as JSON.
func (h *Handler) answers(of func(*http.Request, want) (any, error)) http.HandlerFunc {
	return h.choosing(100, func(w http.ResponseWriter, r *http.Request, wants want) {
		v, err := of(r, wants)
		if err != nil {
			h.failed(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		writeJSON(w, v)
	})
}

// part cuts what a page shows out of a list.
func part[T any](all []T, w want) []T {
	from := min(w.Offset, len(all))
	return all[from:min(from+w.Limit, len(all))]
}

// sample is a look at the locks that is new. While the backend does not answer it is the last one, with an error.
func (h *Handler) sample(ctx context.Context) (view.Sample, error) {
	s, err := patiently(ctx, h, func(ctx context.Context) (view.Sample, error) { return h.sampler.Next(ctx, time.Time{}) })
	if err != nil {
		return h.sampler.Last(), away(err)
	}
	return s, s.Err
}

// away says in one line that the backend has not answered.
func away(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the backend has not answered for %v", patience)
	}
	return err
}

// locksJSON is a part of the locks of a backend.
type locksJSON struct {
	At        time.Time         `json:"at,omitzero"`
	Total     int               `json:"total"` // that are chosen
	Offset    int               `json:"offset"`
	Locks     []interlock.Queue `json:"locks"`
	More      bool              `json:"more,omitempty"` // the backend has more than a list may have
	Took      float64           `json:"list_seconds"`
	Exchanges uint64            `json:"list_exchanges"`
	Error     string            `json:"error,omitempty"`
}

func locksOf(s view.Sample, err error, w want) locksJSON {
	chosen := w.Of(s.Locks, time.Now())
	out := locksJSON{At: s.At, Total: len(chosen), Offset: w.Offset, Locks: part(chosen, w), More: s.More, Took: s.Took.Seconds(), Exchanges: s.Exchanges}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

func (h *Handler) apiLocks(r *http.Request, wants want) (any, error) {
	s, err := h.sample(r.Context())
	if s.At.IsZero() {
		return nil, err
	}
	return locksOf(s, err, wants), nil
}

// lockJSON is one name with its last grants.
type lockJSON struct {
	view.Name
	Grants []view.Grant `json:"grants"` // the latest first
}

func (h *Handler) lockOf(n view.Name) lockJSON {
	grants := h.history.Grants(n.Queue.Name)
	if grants == nil {
		grants = []view.Grant{}
	}
	return lockJSON{n, grants}
}

// name reads all that has a name, and tells the history.
func (h *Handler) name(ctx context.Context, name string) (view.Name, error) {
	n, err := patiently(ctx, h, func(ctx context.Context) (view.Name, error) { return view.Named(ctx, h.c, name) })
	if err != nil {
		return n, err
	}
	h.history.Look(n.Queue, time.Now())
	return n, nil
}

func (h *Handler) apiLock(r *http.Request, _ want) (any, error) {
	n, err := h.name(r.Context(), r.PathValue("name"))
	return h.lockOf(n), err
}

// failed answers with an error of the backend.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusBadGateway
	switch {
	case errors.Is(err, interlock.ErrInvalid):
		code = http.StatusBadRequest
	case errors.Is(err, interlock.ErrLost):
		code = http.StatusNotFound
	case errors.Is(err, interlock.ErrBusy):
		code = http.StatusConflict
	case !driver.IsPermanent(err):
		code = http.StatusServiceUnavailable
	}
	h.refuse(w, r, code, away(err).Error())
}

func (h *Handler) apiWaits(r *http.Request, _ want) (any, error) {
	s, err := h.sample(r.Context())
	if s.At.IsZero() {
		return nil, err
	}
	return map[string]any{"at": s.At, "waits": view.Waits(s.Locks)}, nil
}

func (h *Handler) apiLongest(r *http.Request, _ want) (any, error) {
	_, err := h.sample(r.Context())
	return map[string]any{"since": h.history.Since(), "episodes": h.history.Episodes(mostRows)}, err
}

// stored reads what is stored: at most mostRows.
func (h *Handler) stored(ctx context.Context, prefix string) ([]view.Stored, error) {
	return patiently(ctx, h, func(ctx context.Context) ([]view.Stored, error) { return view.AllStored(ctx, h.c, prefix, mostRows) })
}

func (h *Handler) apiStored(r *http.Request, _ want) (any, error) {
	all, err := h.stored(r.Context(), r.URL.Query().Get("prefix"))
	if len(all) > 0 {
		err = nil
	}
	return append([]view.Stored{}, all...), err
}

// check examines the backend, once in ten seconds for all visitors.
func (h *Handler) check() []interlock.Finding {
	found, _ := h.findings.get(func() ([]interlock.Finding, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
		defer cancel()
		return h.c.Admin().Check(ctx), nil
	})
	return found
}

func (h *Handler) apiChecks(*http.Request, want) (any, error) {
	return append([]interlock.Finding{}, h.check()...), nil
}

// metrics writes gauges of the locks, as Prometheus reads them.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	s, err := h.sample(r.Context())
	if err != nil {
		h.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = metrics.WriteQueues(w, s.Locks) // a reader that has gone needs no error
}

// writeJSON writes a line. A reader that has gone needs no error.
func writeJSON(w io.Writer, v any) { _, _ = w.Write(append(jsonOf(v), '\n')) }

// jsonOf escapes what HTML or a terminal would read.
func jsonOf(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("{}") // JSON lacks such a value
	}
	return view.JSONText(text)
}
