package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/interlock-go/interlock"
)

// newTable makes a table without lines, which people read and awk can cut.
func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	s := table.StyleDefault
	s.Options = table.OptionsNoBordersAndSeparators
	s.Format.Header = text.FormatUpper
	s.Box.PaddingLeft = ""
	s.Box.PaddingRight = "  "
	t.SetStyle(s)
	t.AppendHeader(header)
	return t
}

// held is what somebody has of a lock.
func held(q interlock.Queue, m interlock.Member) string {
	switch {
	case q.Kind == "rwmutex" && m.Units == q.Capacity:
		return "writer"
	case q.Kind == "rwmutex":
		return "reader"
	case q.Kind == "semaphore":
		return fmt.Sprintf("%d of %d", m.Units, q.Capacity)
	}
	return q.Kind
}

func since(t time.Time) string {
	return t.Local().Format(time.DateTime) + " (" + short(time.Since(t)) + ")"
}

// until is when somebody's place ends: a renewed one is shown with what is left
// of its TTL. That of another library is not known.
func until(m interlock.Member) string {
	if m.Foreign && !m.Fixed {
		return "not known"
	}
	left := short(time.Until(m.Until))
	if m.Fixed {
		return m.Until.Local().Format(time.DateTime) + " (in " + left + ")"
	}
	return "renewed, " + left + " left"
}

// short is a duration as people say it: two digits or so.
func short(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// token shows what a late write is refused by.
func token(m interlock.Member) string {
	if m.Token == 0 {
		return ""
	}
	return fmt.Sprint(m.Token)
}

// owner is how messages call somebody.
func owner(m interlock.Member) string {
	if m.Owner == "" {
		return "an unknown member"
	}
	return plain(m.Owner)
}

// plain drops what would disturb a terminal: notes come from anybody.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, s)
}
