package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one of another project that is built into the command.
type module struct {
	Path, Version, Dir string

	licence string   // by SPDX
	files   []string // with the licence and what belongs to it
}

// modules returns those that any of the targets needs, in the order of their paths; the first is Go's
// own library.
func modules(targets []string) ([]module, error) {
	found := map[string]module{}
	for _, target := range targets {
		list := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/interlock")
		list.Dir = root
		list.Env = environment(target)
		out, err := run(list)
		if err != nil {
			return nil, err
		}
		for in := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p struct{ Module *module }
			if err := in.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module != nil && p.Module.Version != "" && !strings.HasPrefix(p.Module.Path, "github.com/interlock-go/") {
				found[p.Module.Path] = *p.Module
			}
		}
	}
	out, err := run(exec.Command("go", "env", "GOROOT", "GOVERSION"))
	if err != nil {
		return nil, err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	all := []module{{Path: "std", Version: version, Dir: goroot}}
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all[1:], func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	for i := range all {
		if err := all[i].read(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// read finds the licence of a module.
func (m *module) read() error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w (go mod download fetches it)", m.Path, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !legal.MatchString(e.Name()) {
			continue
		}
		name := filepath.Join(m.Dir, e.Name())
		m.files = append(m.files, name)
		if stem, _, _ := strings.Cut(strings.ToUpper(e.Name()), "."); stem == "LICENSE" || stem == "LICENCE" || stem == "COPYING" {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			m.licence = identify(string(text))
		}
	}
	if m.licence == "" {
		return fmt.Errorf("%s: no licence that is known here: look at %s", m.Path, m.Dir)
	}
	return nil
}

// identify names a licence by words that only its text has; "" if it is none of these.
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	has := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case has("Mozilla Public License Version 2.0"), has("Mozilla Public License, version 2.0"):
		return "MPL-2.0"
	case has("Apache License Version 2.0"):
		return "Apache-2.0"
	case has("Redistribution and use in source and binary forms") && (has("Neither the name") || has("The names of its contributors may not") || has("names of its contributors may")):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Permission to use, copy, modify, and distribute this software for any purpose"),
		has("Permission to use, copy, modify, and/or distribute this software for any purpose"):
		return "ISC"
	}
	return ""
}

// source is where a module's source is.
func (m *module) source() string {
	parts := strings.Split(m.Path, "/")
	switch {
	case m.Path == "std":
		return "https://go.dev"
	case parts[0] == "github.com":
		return "https://" + strings.Join(parts[:3], "/")
	}
	return "https://" + m.Path
}

func writeTable(w io.Writer, targets []string) error {
	all, err := modules(targets)
	if err != nil {
		return err
	}
	fmt.Fprint(w, `# Third-party modules

These are built into the command, on one platform or another. A program that uses the library has those of
them that its backends need. `+"`make third-party`"+` writes this list; a release has the texts of the licences beside
the binary.

| module | version | licence | source |
|---|---|---|---|
`)
	var files []string
	for _, m := range all {
		version := m.Version
		if m.Path == "std" {
			version = "as the toolchain"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", m.Path, version, m.licence, m.source())
		if m.licence == "MPL-2.0" {
			files = append(files, fmt.Sprintf("%s, in this version, unchanged", m.Path))
		}
	}
	if len(files) > 0 {
		fmt.Fprintf(w, "\nUnder the Mozilla Public License 2.0, whose source has to be available to whoever gets the\nbinary: %s. It is at the address above, under the tag of the version.\n", strings.Join(files, "; "))
	}
	return nil
}

func writeTexts(w io.Writer, targets []string) error {
	all, err := modules(targets)
	if err != nil {
		return err
	}
	fmt.Fprint(w, "The interlock command contains these modules of other projects.\n")
	for _, m := range all {
		fmt.Fprintf(w, "\n%s\n%s %s, %s, %s\n", strings.Repeat("=", 80), m.Path, m.Version, m.licence, m.source())
		for _, name := range m.files {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "\n%s\n\n%s\n", filepath.Base(name), strings.TrimSpace(string(text)))
		}
	}
	return nil
}
