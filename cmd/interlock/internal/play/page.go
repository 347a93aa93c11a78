package play

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/ui"
)

//go:embed page.html
var pageText string

//go:embed play.css
var style []byte

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clock":   func(t time.Time) string { return t.Local().Format(time.TimeOnly) },
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"seconds": func(d time.Duration) int { return int(d.Seconds()) },
	"second":  func(d time.Duration) string { return strconv.FormatFloat(max(0, d.Seconds()), 'f', 1, 64) },
}).Parse(pageText))

// Page is the page of the play in package ui.
func (p *Play) Page() ui.Page {
	m := http.NewServeMux()
	m.HandleFunc("POST /strike", p.serveStrike)
	m.HandleFunc("GET /events", p.serveEvents)
	m.HandleFunc("GET /play.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(style)
	})
	return ui.Page{Path: "demo", Title: "Demo", Main: func(w io.Writer, _ *http.Request) error { return page.Execute(w, p.view()) }, Stream: "demo/events", Below: m}
}

// row is a worker as the page shows it.
type row struct {
	worked
	PID   int
	Place int // of its token
	Left  time.Duration
	Share float64 // of the TTL, in percent
}

// State says what a worker does, and what has happened to it.
func (r row) State() string {
	does := map[step]string{"": "starts", waits: "waits", holds: "holds, works", lost: "knows that the lock is lost"}[r.Step]
	switch r.Trouble {
	case crash:
		return "crashed"
	case halt:
		return "stopped"
	case cut:
		return "cut off, " + cmp.Or(does, string(r.Step))
	}
	return cmp.Or(does, string(r.Step))
}

// Class is the style of the state.
func (r row) Class() string {
	switch {
	case r.Trouble == crash:
		return "fail"
	case r.Trouble != "":
		return "warn"
	case r.Step == holds:
		return "ok"
	}
	return ""
}

// written is a write with the places of its tokens.
type written struct {
	write
	Place, SeenPlace int
}

// view is what the page shows.
type view struct {
	Workers                 []row
	Holder                  int
	Writes                  []written
	Seen, Accepted, Refused int // Seen is the place of a token
	CanStop                 bool
	Lock                    string
	Crashed, Stopped, Away  time.Duration
}

func (p *Play) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := view{
		Seen: p.place(p.seen), Accepted: p.counts[accepted], Refused: p.counts[refused],
		CanStop: canStop, Lock: lockName, Crashed: crashed, Stopped: stopped, Away: away,
	}
	for _, w := range p.workers {
		r := row{worked: *w, Place: p.place(w.Token), Left: time.Until(w.Deadline)}
		r.Share = min(100, 100*max(0, r.Left.Seconds())/ttl.Seconds())
		if w.Process != nil {
			r.PID = w.Process.Pid
		}
		if r.Step == holds && r.Left > 0 {
			v.Holder = r.Number
		}
		v.Workers = append(v.Workers, r)
	}
	for _, w := range p.writes {
		v.Writes = append(v.Writes, written{w, p.place(w.Token), p.place(w.Seen)})
	}
	return v
}

// serveStrike does what a button says.
func (p *Play) serveStrike(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	do, number := r.PostFormValue("do"), 0
	var err error
	if text := r.PostFormValue("worker"); text != "" {
		number, err = strconv.Atoi(text)
	}
	if err != nil || number < 0 || number > workers || do != crash && do != cut && (do != halt || !canStop) {
		http.Error(w, "there is no such button", http.StatusBadRequest)
		return
	}
	p.pick(number, do)
	w.Header().Set("Location", "../demo")
	w.WriteHeader(http.StatusSeeOther)
}

// serveEvents tells the page to show itself anew: after changes, five times a second at most, and once a second.
func (p *Play) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for {
		p.mu.Lock()
		news := p.news
		p.mu.Unlock()
		_ = control.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if _, err := fmt.Fprint(w, "event: state\ndata: {}\n\n"); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
		select {
		case <-r.Context().Done():
			return
		case <-news:
		case <-time.After(time.Second):
		}
	}
}
