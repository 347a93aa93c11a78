package main

import (
	"io"

	"github.com/interlock-go/interlock/internal/view"
)

// What others have written (names, notes, owners, kinds, IDs, the answers of servers, the names of
// processes) reaches people only through view.Plain, and programs only through view.JSONText.

// people is where lines for people are written: line feeds and tabs pass, and what view.Plain leaves.
type people struct{ io.Writer }

func (p people) Write(b []byte) (int, error) {
	if _, err := p.Writer.Write([]byte(view.Plain(string(b), '\n', '\t'))); err != nil {
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
