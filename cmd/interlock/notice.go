package main

import (
	"io"
	"os"
	"sync"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/interlock-go/interlock/internal/view"
)

// notice is standard error with one line below all others that is kept up to date, if that is
// a terminal.
type notice struct {
	io.Writer
	screen io.Writer
	fd     int
	live   bool

	mu   sync.Mutex
	line string
}

func newNotice(w io.Writer) *notice {
	n := &notice{Writer: w, screen: unfiltered(w)}
	if f, ok := n.screen.(*os.File); ok && isTerminal(f) && os.Getenv("TERM") != "dumb" {
		n.fd, n.live = int(f.Fd()), true
	}
	return n
}

// Write writes above the line.
func (n *notice) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.draw("")
	written, err := n.Writer.Write(b)
	n.draw(n.line)
	return written, err
}

// set changes the line; "" removes it.
func (n *notice) set(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if line != n.line {
		n.draw(line)
		n.line = line
	}
}

// draw puts line in the place of what is shown. A process of the background leaves the
// terminal to that of the foreground.
func (n *notice) draw(line string) {
	if n.line == "" && line == "" || !inFront(n.fd) {
		return
	}
	columns, _ := size(n.screen)
	_, _ = io.WriteString(n.screen, "\r\x1b[K"+text.Snip(view.Plain(line), columns-1, "…"))
}
