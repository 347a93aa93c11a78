// Package oneline makes texts that others have written fit into one line of an error or a listing.
package oneline

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var joined = strings.NewReplacer(":\n\t", ": ", ":\n", ": ", "\n\t", "; ", "\n", "; ")

// Of joins the lines of an error, such as that of a server with several addresses.
func Of(text string) string { return joined.Replace(strings.TrimSpace(text)) }

// Name quotes a name that has anything but printable characters.
func Name(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}

// Cut is a text of so many bytes at most, and "…" if there are more.
func Cut[T ~string | ~[]byte](text T, most int) string {
	if len(text) <= most {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:most]), "") + "…"
}
