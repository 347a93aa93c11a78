package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

func init() { root = "../../.." }

// Promise: THIRD_PARTY.md lists the modules that the command is made of.
func TestThirdPartyIsCurrent(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`(?m)^TARGETS := (.*)$`).FindSubmatch(makefile)
	if targets == nil {
		t.Fatal("Makefile names no TARGETS")
	}
	var want bytes.Buffer
	if err := writeTable(&want, strings.Fields(string(targets[1]))); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(root + "/THIRD_PARTY.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("it is another list: make third-party writes it")
	}
	for _, words := range []string{"github.com/go-sql-driver/mysql | v", "MPL-2.0 | https://github.com/go-sql-driver/mysql |", "has to be available"} {
		if !strings.Contains(string(got), words) {
			t.Errorf("nothing of %q", words)
		}
	}
}

// Promise: a licence is named by its text, and one that is not known stops a release.
func TestLicencesAreKnownByTheirText(t *testing.T) {
	for text, want := range map[string]string{
		"MIT License\n\nPermission is hereby granted, free\nof charge, to":          "MIT",
		"Redistribution and use in source and binary forms, with":                   "BSD-2-Clause",
		"Redistribution and use in source and\n binary forms … Neither the name of": "BSD-3-Clause",
		"   Apache License\n   Version 2.0, January":                                "Apache-2.0",
		"Mozilla Public License Version 2.0\n===":                                   "MPL-2.0",
		"GNU GENERAL PUBLIC LICENSE":                                                "", "": "",
	} {
		if got := identify(text); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}
