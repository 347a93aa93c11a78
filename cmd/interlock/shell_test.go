//go:build linux

package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// shellCommands are the commands in lines of shell, as words, and in no particular order. Commands in
// substitutions, of "sh -c", and of jobs under a lock are among them. What only a shell knows, such as the
// value of a variable, is the number 1. The language is what documents need of it: no here-documents, no
// functions, no case, no for.
func shellCommands(text string) ([][]string, error) {
	r := &shellReader{text: text}
	r.read(0)
	if r.err == nil && r.at < len(r.text) {
		r.fail("a ) too much")
	}
	return r.commands, r.err
}

type shellReader struct {
	text     string
	at       int
	commands [][]string
	err      error
}

func (r *shellReader) fail(why string) {
	if r.err == nil {
		r.err = errors.New(why)
	}
	r.at = len(r.text)
}

func (r *shellReader) rest() string { return r.text[r.at:] }

var (
	redirection = regexp.MustCompile(`^[0-9]*(<<<|<<|<>|>>|>\||[<>]&|&>|[<>])[ \t]*`)
	blanks      = regexp.MustCompile(`^([ \t]|\\\n)+`)
	comment     = regexp.MustCompile(`^#[^\n]*`)
	assignment  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	variable    = regexp.MustCompile(`^\$([A-Za-z0-9_]+|\{[^}]*\}|[!?$#*@-])`)
)

const ofShell = "\n;&|()"

// read reads commands until the end, or behind a closing parenthesis if one is awaited.
func (r *shellReader) read(closing byte) {
	var words []string
	end := func() {
		r.add(words)
		words = nil
	}
	for r.at < len(r.text) {
		rest := r.rest()
		switch c := rest[0]; {
		case blanks.MatchString(rest):
			r.at += len(blanks.FindString(rest))
		case c == '#':
			r.at += len(comment.FindString(rest))
		case redirection.MatchString(rest):
			m := redirection.FindStringSubmatch(rest)
			if m[1] == "<<" {
				r.fail("a here-document")
				return
			}
			r.at += len(m[0])
			r.word() // where it leads to
		case c == '(':
			r.at++
			r.read(')')
		case c == ')' && closing == ')':
			r.at++
			end()
			return
		case c == ')':
			return
		case strings.IndexByte(ofShell, c) >= 0:
			r.at++
			end()
		default:
			words = append(words, r.word())
		}
	}
	if closing != 0 {
		r.fail("a ) is missing")
	}
	end()
}

// word reads one word, and the commands in it.
func (r *shellReader) word() string {
	var b strings.Builder
	quoted := false // by "
	for r.at < len(r.text) {
		rest := r.rest()
		switch c := rest[0]; {
		case c == '\\' && len(rest) > 1:
			b.WriteByte(rest[1])
			r.at += 2
		case c == '"':
			quoted = !quoted
			r.at++
		case c == '\'' && !quoted:
			n := strings.IndexByte(rest[1:], '\'')
			if n < 0 {
				r.fail("a ' is missing")
				return ""
			}
			b.WriteString(rest[1 : 1+n])
			r.at += n + 2
		case c == '`':
			r.fail("` (write $(…))")
			return ""
		case strings.HasPrefix(rest, "$("):
			r.at += 2
			r.read(')')
			b.WriteByte('1')
		case variable.MatchString(rest):
			r.at += len(variable.FindString(rest))
			b.WriteByte('1')
		case !quoted && strings.IndexByte(ofShell+" \t<>", c) >= 0:
			return b.String()
		default:
			b.WriteByte(c)
			r.at++
		}
	}
	if quoted {
		r.fail(`a " is missing`)
	}
	return b.String()
}

// ofGrammar are words in front of a command that belong to the shell.
var ofGrammar = []string{"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "exec"}

// add notes a command, and those that it starts.
func (r *shellReader) add(words []string) {
	for len(words) > 0 && (slices.Contains(ofGrammar, words[0]) || assignment.MatchString(words[0])) {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	r.commands = append(r.commands, words)
	switch words[0] {
	case "sh", "bash":
		if i := slices.Index(words, "-c"); i > 0 && i+1 < len(words) {
			r.nested(words[i+1])
		}
	case "ssh": // HOST COMMAND
		r.add(words[min(2, len(words)):])
	case "sudo": // -u USER COMMAND
		r.add(words[min(3, len(words)):])
	case "interlock":
		if i := slices.Index(words, "--"); i > 0 {
			r.add(words[i+1:])
		} else if i := slices.Index(words, "-c"); i > 0 && i+1 < len(words) {
			r.nested(words[i+1])
		}
	}
}

func (r *shellReader) nested(text string) {
	commands, err := shellCommands(text)
	r.commands = append(r.commands, commands...)
	if err != nil {
		r.fail(err.Error())
	}
}
