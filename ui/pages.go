package ui

import (
	"bytes"
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/view"
)

// page is what every page shows.
type page struct {
	Title   string
	Here    string // the page in the navigation
	Backend string
	Changes bool
	Outside bool // the visitor may not look: the page says nothing of the backend
	Pages   []Page
	Own     bool   // this is one of Pages
	Done    string // the result of a change
	Error   string // why what is shown is old, or not whole
	Stream  string // the address of the events that tell when to load the page again; "" if it does not change by itself
}

func (h *Handler) page(r *http.Request, title string) page {
	here := strings.TrimPrefix(r.URL.Path, "/")
	return page{Title: title, Here: here, Backend: h.cfg.Backend, Changes: h.cfg.AllowChanges, Pages: h.cfg.Pages, Done: changes[r.URL.Query().Get("done")].Done}
}

// failed says above a page why what it shows is old, or not whole.
func (p *page) failed(err error) {
	if err != nil {
		p.Error = away(err).Error()
	}
}

// sampled is a page of the locks, and the sample that it shows.
func (h *Handler) sampled(r *http.Request, title string) (page, view.Sample) {
	p := h.page(r, title)
	s, err := h.sample(r.Context())
	p.failed(err)
	p.Stream = brief
	return p, s
}

// brief is the address of the events of the list of locks, without the locks.
const brief = "api/events?brief=1"

// functions are called by the templates.
var functions = template.FuncMap{
	"since":  func(t time.Time) age { return age{t, time.Since(t)} },
	"left":   func(t time.Time) age { return age{t, time.Until(t)} },
	"short":  view.Short,
	"token":  view.Token,
	"held":   view.Held,
	"owner":  owner,
	"clip":   clip,
	"took":   func(d time.Duration) string { return d.Round(100 * time.Microsecond).String() },
	"plain":  func(s string) string { return view.Plain(s) },
	"add":    func(a, b int) int { return a + b },
	"rows":   func(n int) int { return 4 + 16*n },
	"oldest": view.Oldest,
	"lock":   func(name string) string { return "lock?" + url.Values{"name": {name}}.Encode() },
	"change": func(do, name, id string) string {
		return "change?" + url.Values{"do": {do}, "name": {name}, "id": {id}}.Encode()
	},
	"clock":  func(t time.Time) string { return t.Local().Format(time.TimeOnly) },
	"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"bad":    func(s driver.Status) bool { return s != driver.OK },
	"plural": plural,
}

// age is a time with how long ago it was, or is to come.
type age struct {
	At  time.Time
	For time.Duration
}

func (a age) Known() bool    { return !a.At.IsZero() }
func (a age) String() string { return view.Short(a.For) }

func plural(n uint64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatUint(n, 10) + " " + one + "s"
}

// owner is how people know a member.
func owner(name string) string {
	if name == "" {
		return "not known"
	}
	return view.Plain(name)
}

// clip is what others have written, in so many characters at most.
func clip(s string, most int) string { return view.Clip(view.Plain(s), most) }

// render writes a page. A page that cannot be made is an error, not half a page.
func (h *Handler) render(w http.ResponseWriter, r *http.Request, code int, name string, data any) {
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "frame.html", data); err != nil {
		h.log.ErrorContext(r.Context(), "interlock ui: page", "page", name, "error", err)
		http.Error(w, "this page cannot be made: see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}

// pager is the way from one part of a list to the next.
type pager struct {
	From, To, Total int
	Back, Next      string // addresses; "" if there is none
}

func pagerOf(r *http.Request, w want, total int) pager {
	at := func(offset int) string {
		q := maps.Clone(r.URL.Query())
		q.Set("offset", strconv.Itoa(offset))
		return relative(r.URL, q)
	}
	p := pager{From: min(w.Offset+1, total), To: min(w.Offset+w.Limit, total), Total: total}
	if w.Offset > 0 {
		p.Back = at(max(0, w.Offset-w.Limit))
	}
	if p.To < total {
		p.Next = at(p.To)
	}
	return p
}

// rowsShown is how many rows a page shows, if its address does not say it.
const rowsShown = 50

func (h *Handler) showLocks(w http.ResponseWriter, r *http.Request, wants want) {
	p, s := h.sampled(r, "Locks")
	chosen := wants.Of(s.Locks, time.Now())
	var holders, waiters int
	var waits time.Time
	for _, q := range s.Locks {
		holders, waiters = holders+len(q.Holders), waiters+len(q.Waiters)
		if t := view.Oldest(q.Waiters); !t.IsZero() && (waits.IsZero() || t.Before(waits)) {
			waits = t
		}
	}
	h.render(w, r, http.StatusOK, "locks", struct {
		page
		want
		pager
		Query            url.Values
		Orders           map[string]string
		Locks            []interlock.Queue
		All              int
		Holders, Waiters int
		Oldest           time.Time
		Sample           view.Sample
	}{p, wants, pagerOf(r, wants, len(chosen)), r.URL.Query(), orders, part(chosen, wants), len(s.Locks), holders, waiters, waits, s})
}

// orders are how people call the orders of view.
var orders = map[string]string{"name": "name", "waiting": "most waiters", "wait": "oldest wait", "held": "oldest holder"}

// grantRow is a grant with its bar: of a picture that is 1000 wide.
type grantRow struct {
	view.Grant
	For    time.Duration
	Gap    time.Duration // after the grant before it, of a lock that one holds at a time
	X, Len int
}

// grantsShown is how many grants the page of a lock shows.
const grantsShown = 30

// timeline lays grants out from the first to now.
func timeline(grants []view.Grant, now time.Time, alone bool) []grantRow {
	grants = grants[:min(len(grants), grantsShown)]
	if len(grants) == 0 {
		return nil
	}
	begin := slices.MinFunc(grants, func(a, b view.Grant) int { return a.From.Compare(b.From) }).From
	whole := max(now.Sub(begin), time.Millisecond)
	at := func(t time.Time) int { return int(1000 * t.Sub(begin) / whole) }
	var rows []grantRow
	for i, g := range grants {
		to := g.To
		if to.IsZero() {
			to = now
		}
		row := grantRow{Grant: g, For: to.Sub(g.From), X: at(g.From)}
		row.Len = max(4, at(to)-row.X)
		if alone && i+1 < len(grants) && !grants[i+1].To.IsZero() {
			row.Gap = max(0, g.From.Sub(grants[i+1].To))
		}
		rows = append(rows, row)
	}
	return rows
}

func (h *Handler) showLock(w http.ResponseWriter, r *http.Request, wants want) {
	name := r.URL.Query().Get("name")
	p := h.page(r, clip(name, 60))
	n, err := h.name(r.Context(), name)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	p.Stream = brief + "&" + url.Values{"name": {name}}.Encode()
	now := time.Now()
	h.render(w, r, http.StatusOK, "lock", struct {
		page
		pager
		view.Name
		Holders []interlock.Member
		Waiters []interlock.Member
		Offset  int
		Grants  []grantRow
		Since   time.Time
	}{
		p, pagerOf(r, wants, len(n.Waiters)), n, n.Holders[:min(len(n.Holders), mostRows)], part(n.Waiters, wants), wants.Offset,
		timeline(h.history.Grants(name), now, n.Capacity <= 1), h.history.Since(),
	})
}

func (h *Handler) showWaits(w http.ResponseWriter, r *http.Request) {
	p, s := h.sampled(r, "Who waits for whom")
	found, err := h.deadlocks.get(func() ([]interlock.Deadlock, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return interlock.Deadlocks(ctx, h.c)
	})
	if err != nil && p.Error == "" {
		p.Error = "deadlocks could not be looked for: " + away(err).Error()
	}
	waits := view.Waits(s.Locks)
	h.render(w, r, http.StatusOK, "waits", struct {
		page
		Picture   picture
		Waits     []view.Wait
		More      int
		Deadlocks []interlock.Deadlock
	}{p, draw(waits, found), waits[:min(len(waits), rowsShown)], max(0, len(waits)-rowsShown), found})
}

func (h *Handler) showLongest(w http.ResponseWriter, r *http.Request) {
	p, _ := h.sampled(r, "Longest waits")
	h.render(w, r, http.StatusOK, "longest", struct {
		page
		Since    time.Time
		Episodes []view.Episode
	}{p, h.history.Since(), h.history.Episodes(2 * rowsShown)})
}

func (h *Handler) showStored(w http.ResponseWriter, r *http.Request) {
	p := h.page(r, "Values, latches, barriers")
	prefix := r.URL.Query().Get("prefix")
	all, err := h.stored(r.Context(), prefix)
	p.failed(err)
	h.render(w, r, http.StatusOK, "stored", struct {
		page
		Prefix string
		Stored []view.Stored
		Most   bool
	}{p, prefix, all, len(all) == mostRows})
}

func (h *Handler) showChecks(w http.ResponseWriter, r *http.Request) {
	h.render(w, r, http.StatusOK, "checks", struct {
		page
		Findings []interlock.Finding
	}{h.page(r, "Checks"), h.check()})
}

// showOwn shows a page of the program that mounts the handler.
func (h *Handler) showOwn(own Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := h.page(r, own.Title)
		if p.Own = true; own.News != nil {
			p.Stream = own.Path + "/events"
		}
		var b strings.Builder
		if err := own.Main(&b, r); err != nil {
			h.failed(w, r, err)
			return
		}
		h.render(w, r, http.StatusOK, "own", struct {
			page
			Main template.HTML
		}{p, template.HTML(b.String())})
	}
}
