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

// change is something that visitors may do.
type change struct {
	Title, Warning, Button string // of the question before it
	Done                   string // is said after it
	Typed                  bool   // it is dangerous: the name must be typed
	member                 bool   // it is about a holder or a waiter
	do                     func(*Handler, context.Context, asked) error
}

var changes = map[string]change{
	"revoke": {
		Title: "Ask for the lock", Button: "Ask", member: true, do: (*Handler).revoke,
		Warning: "The holder is told that the lock is wanted. It may finish its work first, or not listen.",
		Done:    "The holder was asked to give the lock up. Nothing happens if it does not listen.",
	},
	"evict": {
		Title: "Evict", Button: "Evict", member: true, Typed: true, do: (*Handler).evict,
		Warning: "The holder is told that it has lost the lock. The lock passes on when the holder has released it, or its TTL has run out. A waiter goes to the end of the line.",
		Done:    "The lease was taken away. The lock passes on when its holder has released it, or its TTL has run out.",
	},
	"force": {
		Title: "Evict by force", Button: "Evict by force", member: true, Typed: true, do: (*Handler).evict,
		Warning: "The lock passes on at once. Its holder may still be at work: two may be at work under this lock, unless what they write to checks tokens. Use it only if you know that the holder is dead.",
		Done:    "The lease was taken away, and the lock has passed on.",
	},
	"delete": {
		Title: "Delete the value", Button: "Delete", Typed: true, do: (*Handler).deleteValue,
		Warning: "The value is gone for all programs. This cannot be undone.",
		Done:    "The value was deleted.",
	},
	"latch": {
		Title: "Set the latch", Button: "Set", do: (*Handler).setLatch,
		Warning: "Programs that wait for the latch wait until it has been counted down so many times.",
		Done:    "The latch was set.",
	},
}

// asked is a change as an address or a form names it.
type asked struct{ Do, Name, ID, Count string }

// askChange shows what a change would do. It changes nothing.
func (h *Handler) askChange(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	h.confirm(w, r, http.StatusOK, asked{Do: q.Get("do"), Name: q.Get("name"), ID: q.Get("id")}, "")
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
	if about.member {
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
		About change
		Who   *interlock.Member
	}{p, a, about, who})
}

// change does what a form asks for, if it names the lock a second time where that is dangerous.
func (h *Handler) change(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<14)
	if err := r.ParseForm(); err != nil {
		h.refuse(w, r, http.StatusBadRequest, "The form cannot be read: "+err.Error())
		return
	}
	a := asked{r.PostForm.Get("do"), r.PostForm.Get("name"), r.PostForm.Get("id"), r.PostForm.Get("count")}
	about, known := changes[a.Do]
	typed := r.PostForm.Get("confirm")
	switch {
	case !h.cfg.AllowChanges || !known || a.Name == "":
		h.confirm(w, r, http.StatusOK, a, "")
		return
	case about.Typed && typed != a.Name && typed != view.Plain(a.Name):
		h.confirm(w, r, http.StatusUnprocessableEntity, a, "The name that you typed is not that of the lock.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	err := about.do(h, ctx, a)
	h.log.InfoContext(ctx, "interlock ui: change", "do", a.Do, "name", a.Name, "id", a.ID, "count", a.Count, "user", h.user(r), "remote", r.RemoteAddr, "error", err)
	if err != nil {
		h.failed(w, r, err)
		return
	}
	w.Header().Set("Location", "lock?"+url.Values{"name": {a.Name}, "done": {a.Do}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

func (h *Handler) revoke(ctx context.Context, a asked) error {
	return h.c.Admin().Revoke(ctx, a.Name, a.ID)
}

func (h *Handler) evict(ctx context.Context, a asked) error {
	h.history.Evicted(a.ID)
	return h.c.Admin().Evict(ctx, a.Name, a.ID, a.Do == "force")
}

func (h *Handler) setLatch(ctx context.Context, a asked) error {
	n, err := strconv.ParseInt(a.Count, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: a count of %q: a whole number is wanted", interlock.ErrInvalid, a.Count)
	}
	set, err := h.c.Latch(a.Name).Set(ctx, n)
	if err == nil && !set {
		err = fmt.Errorf("%w: the latch is set already", interlock.ErrBusy)
	}
	return err
}

func (h *Handler) deleteValue(ctx context.Context, a asked) error {
	v := interlock.NewValue[[]byte](h.c, a.Name)
	s, err := v.Get(ctx)
	if err != nil {
		return err
	}
	return v.Delete(ctx, s.Version)
}
