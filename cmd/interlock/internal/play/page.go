package play

import (
	"cmp"
	_ "embed"
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
	m.HandleFunc("GET /play.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(style)
	})
	return ui.Page{Path: "demo", Title: "Demo", Main: p.write, News: p.changed, Below: m}
}

// State says what a worker does, and what has happened to it.
func (w *worked) State() string {
	does := map[step]string{"": "starts", waits: "waits", holds: "holds, works", lost: "knows that the lock is lost"}[w.Step]
	switch w.Trouble {
	case crash:
		return "crashed"
	case halt:
		return "stopped"
	case cut:
		return "cut off, " + cmp.Or(does, string(w.Step))
	}
	return cmp.Or(does, string(w.Step))
}

// Class is the style of the state.
func (w *worked) Class() string {
	switch {
	case w.Trouble == crash:
		return "fail"
	case w.Trouble != "":
		return "warn"
	case w.Step == holds:
		return "ok"
	}
	return ""
}

// Share is what is left of the TTL, in percent.
func (w *worked) Share() float64 { return min(100, 100*max(0, w.Left.Seconds())/ttl.Seconds()) }

// write writes the page.
func (p *Play) write(to io.Writer, _ *http.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var holder *worked
	for _, w := range p.workers {
		if w.Left = time.Until(w.Deadline); w.Step == holds && w.Left > 0 {
			holder = w
		}
	}
	return page.Execute(to, map[string]any{
		"Workers": p.workers, "Holder": holder, "Writes": p.writes, "Place": p.place,
		"Seen": p.seen, "Accepted": p.counts[accepted], "Refused": p.counts[refused],
		"CanStop": canStop, "Lock": lockName, "Crashed": crashed, "Stopped": stopped, "Away": away,
	})
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

// changed is closed at the next change.
func (p *Play) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news
}
