package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/internal/oneline"
	"github.com/interlock-go/interlock/internal/view"
)

// output is standard output. Whoever writes a table does not look whether that worked.
type output struct {
	*os.File
	err error // the first
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

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

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(view.JSONText(b.Bytes()))
	return err
}

// print writes v for programs, or a line for people.
func (o *options) print(cmd *cobra.Command, v any, format string, args ...any) error {
	if o.json {
		return writeJSON(cmd.OutOrStdout(), v)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	return err
}

// done is the end of a command that changes something: programs get what is now, and people a line on
// standard error, if there is something to say.
func (o *options) done(err error, t task, now any, text string) error {
	switch {
	case err != nil:
		return err
	case o.json:
		return writeJSON(t.cmd.OutOrStdout(), now)
	case text != "":
		say(t.cmd, "%s", text)
	}
	return nil
}

// say writes a line for people on standard error.
func say(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
}

// trim makes one line of an error, without control characters and not too long, and drops the library's own
// prefix, which the program's name replaces.
func trim(err error) string {
	const prefix = "interlock: "
	s := err.Error()
	for len(s) > len(prefix) && s[:len(prefix)] == prefix {
		s = s[len(prefix):]
	}
	return line(s)
}

// mostText is how many characters of an error are shown. A name has up to 512.
const mostText = 1000

// line makes one line of a text, which may contain what users or servers have written, and cuts it.
func line(text string) string { return view.Clip(whole(text), mostText) }

// whole is line for what may be long, such as the statements of a remedy.
func whole(text string) string { return view.Plain(oneline.Of(text)) }
