package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What others have written (names, notes, owners, kinds, IDs, the answers of servers, the names of
// processes) reaches people only through plain, and programs only through jsonText.

// steers reports whether a character does something to a terminal, or to the text around it:
// control characters, separators of lines, and those that Unicode calls format characters, such as
// the ones that turn the direction around. Two of these join letters and emoji, and stay.
func steers(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029':
		return true
	case r == '\u200c', r == '\u200d':
		return false
	}
	return unicode.Is(unicode.Cf, r)
}

// plain is a text of one line that steers nothing, but for the characters that may pass.
func plain(s string, pass ...rune) string {
	return strings.Map(func(r rune) rune {
		if steers(r) && !slices.Contains(pass, r) {
			return '·'
		}
		return r
	}, s)
}

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

// jsonText is JSON in which what steers terminals is written as \u…, as json itself does with
// some of it.
func jsonText(encoded []byte) []byte {
	var b bytes.Buffer
	for len(encoded) > 0 {
		r, n := utf8.DecodeRune(encoded)
		switch {
		case r < 0x7f || !steers(r):
			b.Write(encoded[:n])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		encoded = encoded[n:]
	}
	return b.Bytes()
}
