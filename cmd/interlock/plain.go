package main

import (
	"io"

	"github.com/interlock-go/interlock/internal/view"
)

// What others have written (names, notes, owners, kinds, IDs, the answers of servers, the names of
// processes) reaches people only through plain, and programs only through view.JSONText.

// plain is [view.Plain].
func plain(s string, pass ...rune) string { return view.Plain(s, pass...) }

// people is where lines for people are written: line feeds and tabs pass, and what plain leaves.
type people struct{ io.Writer }

func (p people) Write(b []byte) (int, error) {
	if _, err := p.Writer.Write([]byte(plain(string(b), '\n', '\t'))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unfiltered is what people read, for those who steer it themselves.
func unfiltered(w io.Writer) io.Writer {
	if p, ok := w.(people); ok {
		return p.Writer
	}
	return w
}
