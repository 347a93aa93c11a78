package view

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// steers reports whether a character does something to a terminal or a page, or to the text around it:
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

// Plain is a text of one line that steers nothing, but for the characters that may pass.
func Plain(s string, pass ...rune) string {
	return strings.Map(func(r rune) rune {
		if steers(r) && !slices.Contains(pass, r) {
			return '·'
		}
		return r
	}, s)
}

// JSONText is JSON in which what steers terminals is written as \u…, as json itself does with
// some of it.
func JSONText(encoded []byte) []byte {
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

// Clip is a text of so many characters at most.
func Clip(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n == most {
			if _, size := utf8.DecodeRuneInString(s[i:]); i+size < len(s) {
				return s[:i] + "…"
			}
			break
		}
	}
	return s
}
