package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/view"
)

func newWatch(o *options) *cobra.Command {
	var choice view.Choice
	cmd := &cobra.Command{
		Use:   "watch [NAME|PREFIX/]",
		Short: "Show a lock's state, or all locks, live, until interrupted",
		Long: `Watch shows what show does of the lock NAME. Without a name it shows what ls does, and with
a name that ends in / of those whose names begin with that. On a terminal it draws the screen
again each second; elsewhere, and with --json, it writes one state after the other, when
something else has changed than the time. On a terminal, top shows more, and takes keys.`,
		Example: `  interlock watch nightly       who holds nightly, who waits
  interlock watch jobs/         all locks whose names begin with jobs/
  interlock watch --json        all locks, an object after every change`,
		RunE: o.streams(func(ctx context.Context, t task) error {
			w := watcher{o: o, c: t.Client, out: t.cmd.OutOrStdout(), choice: choice}
			live := !o.json && isTerminal(w.out)
			switch {
			case t.name == "" || strings.HasSuffix(t.name, "/"):
				return w.often(ctx, live, func(ctx context.Context) (scene, error) {
					l, err := listed(ctx, w.c, t.name)
					return list(w.choice.Of(l, time.Now())), err
				})
			case live:
				return w.often(ctx, live, func(ctx context.Context) (scene, error) {
					n, err := view.Named(ctx, w.c, t.name)
					return known{n}, err
				})
			}
			return w.follow(ctx, t.name)
		}),
	}
	choose(cmd, &choice)
	formFlag(cmd, o, "wide")
	return cmd
}

// scene is what one look at the backend has shown.
type scene interface {
	json(at time.Time) any
	title() string // what the first line says, if show does not
	locks() list
	show(display)
}

type watcher struct {
	o      *options
	c      *interlock.Client
	out    io.Writer
	choice view.Choice // of a list
	drawn  bool        // there is something on the screen
}

// follow writes each state of a lock.
func (w *watcher) follow(ctx context.Context, name string) error {
	for q, err := range w.c.Admin().Follow(ctx, name) {
		if err != nil {
			return err
		}
		n, err := view.Besides(ctx, w.c, q)
		if err != nil {
			return err
		}
		if err := w.write(known{n}); err != nil {
			return err
		}
	}
	return nil
}

// often shows what there is to see, once a second at most: on the screen, else when it has changed. What
// passes once something was seen, such as a lost connection, is waited for.
func (w *watcher) often(ctx context.Context, live bool, look func(context.Context) (scene, error)) error {
	var last list // nil: nothing was seen
	for s, err := range backoff.Often(ctx, look) {
		switch {
		case err != nil && (last == nil || driver.IsPermanent(err)):
			return err
		case err != nil:
			continue
		case live:
			err = w.draw(s)
		case last == nil || !slices.EqualFunc(s.locks(), last, interlock.Queue.Same):
			err = w.write(s)
		}
		if err != nil {
			return err
		}
		last = s.locks()
	}
	return nil
}

// write adds a scene to the output.
func (w *watcher) write(s scene) error {
	if w.o.json {
		return writeJSON(w.out, s.json(time.Now()))
	}
	_, err := w.out.Write(w.text(s))
	return err
}

// draw puts a scene over the last one. Of one that is higher than the screen, its beginning
// is seen.
func (w *watcher) draw(s scene) error {
	text := strings.SplitAfter(string(w.text(s)), "\n")
	_, most := size(w.out)
	if more := len(text) - most; more > 0 {
		text = append(text[:max(0, most-2)], fmt.Sprintf("… and %d more lines\n", more+1))
	}
	frame := "\x1b[H"
	if !w.drawn {
		frame += "\x1b[2J"
		w.drawn = true
	}
	frame += strings.ReplaceAll(strings.Join(text, ""), "\n", "\x1b[K\n") + "\x1b[J"
	_, err := io.WriteString(w.out, frame)
	return err
}

func (w *watcher) text(s scene) []byte {
	var b bytes.Buffer
	v := w.o.display(w.out)
	v.w = &b
	fmt.Fprintf(&b, "%s  %s", time.Now().Format(time.TimeOnly), s.title())
	v.fit(s.show)
	return b.Bytes()
}
