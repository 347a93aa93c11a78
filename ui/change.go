package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// done is what a page says after a change.
var done = map[string]string{
	"revoke": "The holder was asked to give the lock up. Nothing happens if it does not listen.",
	"evict":  "The lease was taken away. The lock passes on when its holder has released it, or its TTL has run out.",
	"force":  "The lease was taken away, and the lock has passed on.",
	"latch":  "The latch was set.",
	"delete": "The value was deleted.",
}

// changes are what visitors may do, and what is said before.
var changes = map[string]struct{ Title, Warning, Button string }{
	"revoke": {"Ask for the lock", "The holder is told that the lock is wanted. It may finish its work first, or not listen.", "Ask"},
	"evict": {
		"Evict", "The holder is told that it has lost the lock. The lock passes on when the holder has released it, or its TTL has run out. A waiter goes to the end of the line.",
		"Evict",
	},
	"force": {
		"Evict by force", "The lock passes on at once. Its holder may still be at work: two may be at work under this lock, unless what they write to checks tokens. Use it only if you know that the holder is dead.",
		"Evict by force",
	},
	"delete": {"Delete the value", "The value is gone for all programs. This cannot be undone.", "Delete"},
	"latch":  {"Set the latch", "Programs that wait for the latch wait until it has been counted down so many times.", "Set"},
}

// asked is a change as an address or a form names it.
type asked struct{ Do, Name, ID string }

// askChange shows what a change would do. It changes nothing.
func (h *Handler) askChange(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	h.confirm(w, r, http.StatusOK, asked{q.Get("do"), q.Get("name"), q.Get("id")}, "")
}

func (h *Handler) confirm(w http.ResponseWriter, r *http.Request, code int, a asked, wrong string) {
	about, known := changes[a.Do]
	switch {
	case !h.cfg.AllowChanges:
		h.refuse(w, r, http.StatusForbidden, "This page changes nothing: it was started without --allow-changes.")
		return
	case !known || a.Name == "":
		h.refuse(w, r, http.StatusBadRequest, "There is no such change.")
		return
	}
	var who *interlock.Member
	if a.Do == "revoke" || a.Do == "evict" || a.Do == "force" {
		n, err := h.name(r.Context(), a.Name)
		if err != nil {
			h.failed(w, r, err)
			return
		}
		ticket, _, _ := strings.Cut(a.ID, ".") // of the ID of a lease
		for _, m := range slices.Concat(n.Holders, n.Waiters) {
			if m.ID == ticket {
				who = &m
			}
		}
		if who == nil {
			h.refuse(w, r, http.StatusNotFound, "No holder and no waiter of this lock has that ID any more.")
			return
		}
	}
	p := h.page(r, about.Title)
	p.Error = wrong
	h.render(w, r, code, "change", struct {
		page
		asked
		Who             *interlock.Member
		Warning, Button string
		Typed           bool // the name must be typed
	}{p, a, who, about.Warning, about.Button, a.Do == "force" || a.Do == "evict" || a.Do == "delete"})
}

// change does what a form asks for, if it names the lock a second time where that is dangerous.
func (h *Handler) change(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<14)
	if err := r.ParseForm(); err != nil {
		h.refuse(w, r, http.StatusBadRequest, "The form cannot be read: "+err.Error())
		return
	}
	a := asked{r.PostForm.Get("do"), r.PostForm.Get("name"), r.PostForm.Get("id")}
	_, known := changes[a.Do]
	typed := r.PostForm.Get("confirm")
	switch {
	case !h.cfg.AllowChanges || !known || a.Name == "":
		h.confirm(w, r, http.StatusOK, a, "")
		return
	case (a.Do == "evict" || a.Do == "force" || a.Do == "delete") && typed != a.Name && typed != view.Plain(a.Name):
		h.confirm(w, r, http.StatusUnprocessableEntity, a, "The name that you typed is not that of the lock.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	err := h.do(ctx, a, r.PostForm.Get("count"))
	h.log.InfoContext(ctx, "interlock ui: change", "do", a.Do, "name", a.Name, "id", a.ID, "count", r.PostForm.Get("count"), "user", h.user(r), "remote", r.RemoteAddr, "error", err)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	w.Header().Set("Location", "lock?"+url.Values{"name": {a.Name}, "done": {a.Do}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

func (h *Handler) do(ctx context.Context, a asked, count string) error {
	switch a.Do {
	case "revoke":
		return h.c.Admin().Revoke(ctx, a.Name, a.ID)
	case "evict", "force":
		h.history.Evicted(a.ID)
		return h.c.Admin().Evict(ctx, a.Name, a.ID, a.Do == "force")
	case "latch":
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: a count of %q: a whole number is wanted", interlock.ErrInvalid, count)
		}
		set, err := h.c.Latch(a.Name).Set(ctx, n)
		if err == nil && !set {
			err = fmt.Errorf("%w: the latch is set already", interlock.ErrBusy)
		}
		return err
	}
	v := interlock.NewValue[[]byte](h.c, a.Name)
	s, err := v.Get(ctx)
	if err != nil {
		return err
	}
	return v.Delete(ctx, s.Version)
}
