//go:build linux

package main

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	gmtext "github.com/yuin/goldmark/text"
)

// A snippet is what a document shows as code: a block, fenced or indented, or a span between
// backquotes, which may stand in a table.
type snippet struct {
	line     int
	span     bool
	language string // of a fenced block
	text     string
}

// pages are the documents, by their paths from the root of the repository. The list of licences is
// written by a program, and faults.md records what the code once was.
func pages() (files []string) {
	const root = "../.."
	must(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case !entry.IsDir() && filepath.Ext(name) == ".md" && name != "THIRD_PARTY.md" && name != "faults.md":
			file, err := filepath.Rel(root, path)
			files = append(files, file)
			return err
		}
		return nil
	}))
	return files
}

// snippetsOf reads a document.
func snippetsOf(text string) (all []snippet) {
	source := []byte(text)
	add := func(s snippet, parts *gmtext.Segments) {
		var b strings.Builder
		for _, part := range parts.Sliced(0, parts.Len()) {
			b.Write(part.Value(source))
		}
		if s.line, s.text = 1+bytes.Count(source[:parts.At(0).Start], []byte("\n")), strings.TrimRight(b.String(), "\n"); s.span {
			s.text = strings.ReplaceAll(strings.Join(strings.Fields(s.text), " "), `\|`, "|")
		}
		all = append(all, s)
	}
	document := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(gmtext.NewReader(source))
	must(ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			if n.Lines().Len() > 0 {
				add(snippet{language: string(n.Language(source))}, n.Lines())
			}
		case *ast.CodeBlock:
			add(snippet{}, n.Lines())
		case *ast.CodeSpan:
			var parts gmtext.Segments
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				parts.Append(c.(*ast.Text).Segment)
			}
			add(snippet{span: true}, &parts)
		}
		return ast.WalkContinue, nil
	}))
	return all
}
