package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/interlock-go/interlock/internal/view"
)

// teller says what happens to a job: to people or programs on standard error,
// and to a program on the descriptor of --status-fd.
type teller struct {
	err            io.Writer
	status         io.Writer // nil if there is none
	json           bool
	quiet, verbose bool
	name           string // of the lock
}

// eventJSON is how programs see an event.
type eventJSON struct {
	Time   time.Time   `json:"time"`
	Event  string      `json:"event"`
	Name   string      `json:"name"`
	Token  string      `json:"token,omitempty"`  // of acquired: a string, as everywhere
	Status json.Number `json:"status,omitempty"` // of ended
	Lost   json.Number `json:"lost,omitempty"`   // of overrun: seconds since the loss
	Text   string      `json:"text"`
}

func newTeller(err io.Writer, f *jobFlags, json bool) (*teller, error) {
	t := &teller{err: err, json: json, quiet: f.quiet, verbose: f.verbose}
	if f.statusFD < 0 {
		return t, nil
	}
	if f.statusFD <= 2 {
		return nil, usage("--status-fd %d: 0, 1 and 2 belong to the job; take 3 or more", f.statusFD)
	}
	closeOnExec(f.statusFD) // the job must not hold it open
	file := os.NewFile(uintptr(f.statusFD), "status-fd")
	if _, wrong := file.Stat(); wrong != nil {
		return nil, usage("--status-fd %d: the descriptor is not open", f.statusFD)
	}
	t.status = file
	return t, nil
}

// wrong are the events that people see without -v.
var wrong = map[string]bool{
	"away": true, "back": true, "retry": true, "in-doubt": true, "revoked": true, "busy": true, "unreleased": true,
	"overrun": true, "warning": true,
}

// tell reports an event with its number: the token of acquired, the status of ended, the seconds
// of overrun. People see what is wrong, and with -v all.
func (t *teller) tell(event, number, format string, args ...any) {
	text := line(fmt.Sprintf(format, args...))
	said := event
	if number != "" {
		said += " " + number
	}
	if t.json {
		e := eventJSON{Time: time.Now(), Event: event, Name: t.name, Text: text}
		switch event {
		case "acquired":
			e.Token = number
		case "ended":
			e.Status = json.Number(number)
		case "overrun":
			e.Lost = json.Number(number)
		}
		b, _ := json.Marshal(e)
		said = string(view.JSONText(b))
	}
	if t.status != nil && event != "backend" {
		fmt.Fprintln(t.status, said)
	}
	switch {
	case !t.verbose && (!wrong[event] || event == "busy" && t.quiet):
	case t.json:
		fmt.Fprintln(t.err, said)
	default:
		fmt.Fprintln(t.err, "interlock:", text)
	}
}

func (t *teller) warn(format string, args ...any) {
	t.tell("warning", "", format, args...)
}
