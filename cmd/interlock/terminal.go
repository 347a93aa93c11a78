package main

import (
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether people look at what is written there.
func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// unattended reports whether the program was started by another one, such as cron.
func unattended() bool {
	return !isTerminal(os.Stdin) && !isTerminal(os.Stdout) && !isTerminal(os.Stderr)
}
