package drivertest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var spaces = regexp.MustCompile(`\s+`)

// specification returns the comments of package driver, each in one line.
func specification(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../driver/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("package driver: %d files, %v", len(paths), err)
	}
	var comments []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range f.Comments {
			comments = append(comments, spaces.ReplaceAllString(strings.TrimSpace(c.Text()), " "))
		}
	}
	return comments
}

// Specification and suite cannot drift apart: what a rule quotes stands in
// package driver.
func TestRulesQuoteTheSpecification(t *testing.T) {
	spec := specification(t)
	for _, r := range rules {
		if len(r.says) == 0 {
			t.Errorf("rule %s quotes no sentence", r.name)
		}
		for _, sentence := range r.says {
			if !contains(spec, sentence) {
				t.Errorf("rule %s quotes what package driver does not say:\n\t%s", r.name, sentence)
			}
		}
	}
}

func contains(spec []string, sentence string) bool {
	for _, comment := range spec {
		if strings.Contains(comment, sentence) {
			return true
		}
	}
	return false
}
