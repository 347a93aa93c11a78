package main

import (
	"os"

	"golang.org/x/term"
)

// descriptor is an open file, such as standard output.
type descriptor interface{ Fd() uintptr }

// isTerminal reports whether people look at what is written there.
func isTerminal(w any) bool {
	f, ok := w.(descriptor)
	return ok && term.IsTerminal(int(f.Fd()))
}

// size returns the columns and lines of a terminal.
func size(w any) (columns, lines int) {
	columns, lines = 80, 24
	if f, ok := w.(descriptor); ok {
		if c, l, err := term.GetSize(int(f.Fd())); err == nil && c > 0 && l > 0 {
			columns, lines = c, l
		}
	}
	return columns, lines
}

// unattended reports whether the program was started by another one, such as cron.
func unattended() bool {
	return !isTerminal(os.Stdin) && !isTerminal(os.Stdout) && !isTerminal(os.Stderr)
}
