package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// deadlockJSON is how programs see a deadlock.
type deadlockJSON struct {
	Waits []blockedJSON `json:"waits"`
}

// blockedJSON is a wait of a deadlock, and what keeps it waiting: a holder, or somebody in front, who is
// the owner of the next wait.
type blockedJSON struct {
	Name    string           `json:"name"`
	Outside bool             `json:"outside,omitempty"` // of the prefixes of the URLs: it is the whole name
	Kind    string           `json:"kind"`
	Backend string           `json:"backend"`
	Owner   string           `json:"owner"`
	Note    string           `json:"note"`
	Units   int64            `json:"units"`
	Since   time.Time        `json:"since,omitzero"`
	By      interlock.Member `json:"by"` // as in show
}

// deadlocks looks for deadlocks over all the backends.
func (o *options) deadlocks(ctx context.Context, cmd *cobra.Command, backends []backend) error {
	opening, cancel := answering(ctx, patience)
	defer cancel()
	var clients []*interlock.Client
	shown := map[*interlock.Client]string{}
	for _, b := range backends {
		c, err := b.open(opening)
		if err != nil {
			return err
		}
		defer within(lastWord, c.Close)
		clients = append(clients, c)
		shown[c] = b.shown()
	}
	looking, cancel := answering(ctx, examinationTime+time.Minute) // those who do not answer are waited for, a minute at most
	defer cancel()
	found, err := interlock.Deadlocks(looking, clients...)
	if signal := ended(ctx); signal != nil {
		return signal
	}
	if err != nil {
		return failed(exitUnreachable, err)
	}
	if err := o.reportDeadlocks(cmd, found, shown); err != nil {
		return err
	}
	if len(found) > 0 {
		return &exitError{code: exitDeadlock}
	}
	return nil
}

func (o *options) reportDeadlocks(cmd *cobra.Command, found []interlock.Deadlock, shown map[*interlock.Client]string) error {
	out := cmd.OutOrStdout()
	if o.json {
		list := []deadlockJSON{}
		for _, d := range found {
			waits := []blockedJSON{}
			for _, w := range d.Waits {
				waits = append(waits, blockedJSON{w.Name, w.Outside, w.Kind, shown[w.Client], w.Owner, w.Note, w.Units, w.Since, w.By})
			}
			list = append(list, deadlockJSON{waits})
		}
		return writeJSON(out, list)
	}
	if len(found) == 0 {
		fmt.Fprintln(out, "no deadlock")
		return nil
	}
	out = people{out}
	for i, d := range found {
		fmt.Fprintf(out, "deadlock %d of %d: each waits for a lock of the next, the last for one of the first\n", i+1, len(found))
		t := o.display(out).sheet(column{name: "owner"}, column{name: "note"}, column{name: "waits for"}, column{name: "since"},
			column{name: "held by"}, column{name: "token"}, column{name: "id"}, column{name: "backend"})
		for _, w := range d.Waits {
			since := "not known"
			if !w.Since.IsZero() {
				since = view.Short(time.Since(w.Since))
			}
			by := owner(w.By)
			if w.By.Token == 0 {
				by += " (waits in front)"
			}
			t.add(painted(line(w.Owner)), painted(line(w.Note)), painted(line(w.Name)), since, by, view.Token(w.By), w.By.ID, shown[w.Client])
		}
		t.render()
	}
	waits := found[0].Waits
	last := waits[len(waits)-1]
	for _, w := range waits {
		if last.Outside && !w.Outside {
			last = w
		}
	}
	on := ""
	if len(shown) > 1 || cmd.Flags().Changed("url") || cmd.Flags().Changed("url-file") {
		on = ", with " + urlVariable + " for " + shown[last.Client]
	}
	if last.Outside {
		on += ", with a URL without prefix="
	}
	fmt.Fprintf(out, "remedy: end one of these programs, or take its lock away, such as%s: interlock evict %s %s\n", on, line(last.Name), line(last.By.ID))
	return nil
}
