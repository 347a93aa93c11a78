package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/view"
)

func newTop(o *options) *cobra.Command {
	var choice view.Choice
	cmd := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Watch the locks in the terminal; open, revoke, evict",
		Long: `Top shows the locks whose names begin with PREFIX on the whole terminal, and keeps them
current. Enter opens a lock: who holds it, who waits, in order, and its last grants. Other
keys sort, filter, revoke and evict; ? shows them all. It reads the backend once a second,
and for a tenth of the time at most. Without a terminal, take watch.`,
		Example: `  interlock top                 all locks, most waiters first
  interlock top --older 1h jobs/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out := cmd.OutOrStdout(); o.json || !isTerminal(out) || !isTerminal(os.Stdin) || os.Getenv("TERM") == "dumb" {
				return usage("top needs a terminal that it can draw on: take interlock watch")
			}
			t := &top{events: make(chan any), notices: make(chan string, 1), history: view.NewHistory()}
			cmd.SetErr(t)
			return o.streams(func(ctx context.Context, k task) error {
				t.c, t.sampler = k.Client, view.NewSampler(k.Client, k.name, t.history)
				t.colour = o.display(cmd.OutOrStdout()).colour
				return t.run(ctx, &topModel{backend: o.found.shown(), prefix: k.name, history: t.history, choice: choice})
			})(cmd, args)
		},
	}
	choose(cmd, &choice)
	order := cmd.Flags().Lookup("sort")
	order.DefValue = "waiting"
	_ = order.Value.Set("waiting")
	return cmd
}

// top connects a topModel with a terminal and a backend.
type top struct {
	c       *interlock.Client
	history *view.History
	sampler *view.Sampler
	colour  bool

	events  chan any    // for the model
	notices chan string // the last line for people
	unread  func()      // ends the reading of the open lock
}

// Write gets what a command that waits tells people, such as that the backend does not answer. The screen shows it.
func (t *top) Write(line []byte) (int, error) {
	drop(t.notices)
	put(t.notices, strings.TrimSpace(strings.TrimPrefix(string(line), "interlock:")))
	return len(line), nil
}

// run shows the model until a key or ctx ends it. It does not wait for a terminal that takes no more text.
func (t *top) run(ctx context.Context, m *topModel) error {
	tcell.SetEncodingFallback(tcell.EncodingFallbackASCII)
	screen, err := tcell.NewScreen()
	saved, _ := term.GetState(int(os.Stdin.Fd()))
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return usage("top cannot draw on this terminal (TERM=%s): %w; take interlock watch", os.Getenv("TERM"), err)
	}
	screen.EnablePaste()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go t.keys(ctx, screen)
	go func() {
		defer screen.Fini()
		defer cancel() // keys reads on without sending, so that Fini can end
		done <- t.loop(ctx, m, screen)
	}()
	quit := make(chan os.Signal, 1) // which would end the process at once, and leave the terminal as it is
	signal.Notify(quit, syscall.SIGQUIT)
	defer signal.Stop(quit)
	select {
	case err = <-done:
	case <-quit:
		err = signalled{syscall.SIGQUIT}
	case <-ctx.Done():
	}
	if within(lastWord, func() error { screen.Fini(); return nil }) != nil && saved != nil {
		_ = term.Restore(int(os.Stdin.Fd()), saved)
	}
	return err
}

func (t *top) send(ctx context.Context, event any) {
	select {
	case t.events <- event:
	case <-ctx.Done():
	}
}

// keys sends what comes from the terminal, until the screen is finished.
func (t *top) keys(ctx context.Context, screen tcell.Screen) {
	for event := screen.PollEvent(); event != nil; event = screen.PollEvent() {
		switch e := event.(type) {
		case *tcell.EventKey:
			t.send(ctx, topKeyOf(e))
		case *tcell.EventPaste:
			t.send(ctx, topPaste(e.Start()))
		case *tcell.EventResize:
			t.send(ctx, nil) // drawing asks for the size
		case *tcell.EventError:
			t.send(ctx, failed(exitIO, e))
		}
	}
}

var topKeyNames = map[tcell.Key]topKey{
	tcell.KeyUp: "up", tcell.KeyDown: "down", tcell.KeyLeft: "left", tcell.KeyRight: "right",
	tcell.KeyPgUp: "pgup", tcell.KeyPgDn: "pgdn", tcell.KeyHome: "home", tcell.KeyEnd: "end",
	tcell.KeyEnter: "enter", tcell.KeyTab: "tab", tcell.KeyEscape: "esc",
	tcell.KeyBackspace: "backspace", tcell.KeyBackspace2: "backspace", tcell.KeyCtrlC: "ctrl-c",
}

func topKeyOf(e *tcell.EventKey) topKey {
	if e.Key() == tcell.KeyRune && e.Modifiers()&(tcell.ModAlt|tcell.ModMeta) == 0 {
		return topKey(e.Rune())
	}
	return topKeyNames[e.Key()]
}

// topTick is after how long the screen is drawn anew though nothing has happened.
const topTick = 1500 * time.Millisecond

// loop gives the model its events, does what it wants, and draws it.
func (t *top) loop(ctx context.Context, m *topModel, screen tcell.Screen) error {
	tick := time.NewTicker(topTick)
	defer tick.Stop()
	t.unread = func() {}
	defer func() { t.unread() }()
	idle, followed := true, ""
	for {
		if idle && !m.paused {
			idle = false
			go t.list(ctx, m.sample.At)
		}
		if w, h := screen.Size(); w != m.width || h != m.height {
			m.update(time.Now(), topSize{w, h})
		}
		t.paint(screen, m)
		tick.Reset(topTick)
		var event any
		select {
		case event = <-t.events:
		case text := <-t.notices:
			event = topTrouble(text)
		case <-tick.C:
		case <-ctx.Done():
			return nil // streams knows why
		}
		switch e := event.(type) {
		case error:
			return e
		case topSample:
			idle = true
			if e.Err != nil && m.sample.At.IsZero() && driver.IsPermanent(e.Err) && len(e.Locks) == 0 {
				return e.Err
			}
		}
		switch do := m.update(time.Now(), event).(type) {
		case topQuit:
			if do.interrupted {
				return signalled{syscall.SIGINT}
			}
			return nil
		case topAsk:
			go t.ask(ctx, do)
		}
		if name := m.followed(); name != followed {
			t.follow(ctx, name)
			followed = name
		}
	}
}

// list sends the next sample.
func (t *top) list(ctx context.Context, after time.Time) {
	if s, err := t.sampler.Next(ctx, after); err == nil {
		t.send(ctx, topSample{s, t.c.Admin().Exchanges()})
	}
}

// follow sends the states of a lock, until another is followed.
func (t *top) follow(ctx context.Context, name string) {
	t.unread()
	ctx, t.unread = context.WithCancel(ctx)
	if name == "" {
		return
	}
	go func() {
		for q, err := range backoff.Often(ctx, func(ctx context.Context) (interlock.Queue, error) { return t.c.Admin().Queue(ctx, name) }) {
			if err == nil {
				t.history.Look(q, time.Now())
			}
			t.send(ctx, topQueue{name, q, err})
		}
	}()
}

// ask does what was answered with yes.
func (t *top) ask(ctx context.Context, a topAsk) {
	limited, cancel := answering(ctx, patience)
	defer cancel()
	if !a.waits && !onlyAsked(a.member, a.do) {
		t.history.Evicted(a.member.ID)
	}
	said, err := demand(limited, t.c, a.name, a.member, a.do)
	switch {
	case errors.Is(err, interlock.ErrLost):
		said = owner(a.member) + " has gone meanwhile: nothing was done"
	case err != nil:
		said = "not done: " + reason(err)
	}
	t.send(ctx, topSaid(said))
}

var (
	topLooks = [...]tcell.Style{
		lookBold: tcell.StyleDefault.Bold(true), lookDim: tcell.StyleDefault.Dim(true),
		lookPicked: tcell.StyleDefault.Reverse(true), lookBad: tcell.StyleDefault.Bold(true),
	}
	topColours = map[look]tcell.Color{lookHolds: tcell.ColorGreen, lookWaits: tcell.ColorOlive, lookBad: tcell.ColorMaroon}
)

// paint writes each cell once. Tcell sends the cells that differ from the terminal's.
func (t *top) paint(screen tcell.Screen, m *topModel) {
	for y, line := range m.frame() {
		x, ground := 0, tcell.StyleDefault
		blank := func(to int) {
			for ; x < to; x++ {
				screen.Put(x, y, " ", ground)
			}
		}
		if len(line) > 0 && line[0].look == lookPicked {
			ground = topLooks[lookPicked]
		}
		for _, s := range line {
			style := topLooks[s.look]
			if c, ok := topColours[s.look]; ok && t.colour {
				style = style.Foreground(c)
			}
			blank(s.x)
			for rest, n := fit(s.text, s.cells), 0; rest != ""; x += n {
				if rest, n = screen.Put(x, y, rest, style); n == 0 {
					break
				}
			}
		}
		blank(m.width)
	}
	screen.Show()
}
