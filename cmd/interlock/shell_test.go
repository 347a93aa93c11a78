//go:build linux

package main

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellCommands are the commands in lines of shell, as words. Commands in substitutions, of "sh -c", and of jobs
// under a lock are among them. What only a shell knows, such as the value of a variable, is the number 1.
func shellCommands(text string) (commands [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		var words []string
		switch n := node.(type) {
		case *syntax.CallExpr:
			for _, w := range n.Args {
				words = append(words, literal(w.Parts))
			}
		case *syntax.DeclClause: // export
			words = []string{n.Variant.Value}
		}
		for len(words) > 0 {
			if words[0] != "exec" {
				commands = append(commands, words)
			}
			inner, nested := inside(words)
			if nested != "" {
				more, wrong := shellCommands(nested)
				commands = append(commands, more...)
				err = wrong
			}
			words = inner
		}
		return true
	})
	return commands, err
}

// inside is the command that another one starts, as words or as lines of shell.
func inside(words []string) (inner []string, lines string) {
	script := func() string {
		if i := slices.Index(words, "-c"); i > 0 && i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	switch words[0] {
	case "exec":
		return words[1:], ""
	case "sh", "bash":
		return nil, script()
	case "ssh": // HOST COMMAND
		return words[min(2, len(words)):], ""
	case "sudo": // -u USER COMMAND
		return words[min(3, len(words)):], ""
	case "interlock":
		if i := slices.Index(words, "--"); i > 0 {
			return words[i+1:], ""
		}
		return nil, script()
	}
	return nil, ""
}

// literal is a word as the command gets it.
func literal(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(literal(p.Parts))
		default:
			b.WriteByte('1')
		}
	}
	return b.String()
}
