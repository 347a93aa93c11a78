// Package oneline joins the lines of an error, such as that of a server with several addresses.
package oneline

import "strings"

var joined = strings.NewReplacer(":\n\t", ": ", ":\n", ": ", "\n\t", "; ", "\n", "; ")

// Of returns a text in one line.
func Of(text string) string { return joined.Replace(strings.TrimSpace(text)) }
