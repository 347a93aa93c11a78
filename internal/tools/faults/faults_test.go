package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A fault whose place has changed would be tried nowhere, and nobody would miss it.
func TestEachFaultHasItsPlaceAndItsTest(t *testing.T) {
	for _, f := range faults {
		if _, err := f.text("../../.."); err != nil {
			t.Error(err)
		}
		name, _, _ := strings.Cut(strings.Trim(f.test, "^$"), "/")
		for name := range strings.SplitSeq(name, "|") {
			if !hasTest(t, f.dir("../../.."), strings.Trim(name, "^$()")) {
				t.Errorf("%s: no test in %s begins with %q", f.file, f.dir("."), name)
			}
		}
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if begins.Match(text) {
			return true
		}
	}
	return false
}
