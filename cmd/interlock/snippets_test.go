//go:build linux

package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
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

var (
	fenceLine = regexp.MustCompile("^( *)(```+|~~~+) *([^` ]*)[^`]*$")
	itemLine  = regexp.MustCompile(`^ *([-*+]|\d+[.)]) +`)
	spanText  = regexp.MustCompile("`([^`]+)`")
)

// snippetsOf reads a document.
func snippetsOf(text string) (all []snippet) {
	var (
		prose     []string // lines that follow each other and may share a span
		block     *snippet // that is being read
		closing   string   // what ends a fenced block; "" for one that is indented
		depth     int      // how far the block is indented
		inList    int      // how far the text of the item is indented
		blank     = true   // the line before was
		lineCount int
	)
	endProse := func() {
		text := strings.Join(prose, "\n")
		for _, m := range spanText.FindAllStringSubmatchIndex(text, -1) {
			all = append(all, snippet{
				line: lineCount - strings.Count(text[m[0]:], "\n") - 1, span: true,
				text: strings.ReplaceAll(strings.Join(strings.Fields(text[m[2]:m[3]]), " "), `\|`, "|"),
			})
		}
		prose = nil
	}
	endBlock := func() {
		block.text = strings.TrimRight(block.text, "\n")
		all = append(all, *block)
		block = nil
	}
	for line := range strings.Lines(text + "\n\n") {
		lineCount++
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n "), "\t", "    ")
		if block != nil && closing != "" {
			line := line
			for range depth {
				line = strings.TrimPrefix(line, " ")
			}
			if strings.HasPrefix(strings.TrimSpace(line), closing) {
				endBlock()
				blank = true
			} else {
				block.text += line + "\n"
			}
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if line != "" && blank && indent < inList {
			inList = 0
		}
		switch {
		case block != nil && (line == "" || indent >= depth):
			block.text += line[min(depth, len(line)):] + "\n"
			continue
		case block != nil:
			endBlock()
		}
		switch m := fenceLine.FindStringSubmatch(line); {
		case line == "":
			endProse()
		case m != nil:
			endProse()
			block, closing, depth = &snippet{line: lineCount + 1, language: m[3]}, m[2], len(m[1])
		case indent >= inList+4 && blank:
			endProse()
			block, closing, depth = &snippet{line: lineCount}, "", inList+4
			block.text = line[depth:] + "\n"
		default:
			if list := itemLine.FindString(line); list != "" {
				endProse()
				inList = len(list)
			}
			if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
				endProse()
			}
			prose = append(prose, line)
		}
		blank = line == ""
	}
	if block != nil {
		endBlock()
	}
	return all
}
