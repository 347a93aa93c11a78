package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/bench/figures"
)

// compare is a command: it prints what has become of the figures of one run in another one.
func compare(_ context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: bench compare BEFORE.jsonl AFTER.jsonl")
	}
	before, err := figures.Read(args[0])
	if err != nil {
		return err
	}
	after, err := figures.Read(args[1])
	if err != nil {
		return err
	}
	fmt.Print(figures.Compare(before, after))
	return nil
}

// table is a command: it writes the tables of the documents, and docs/bench.html, from the results that are
// stored, or the medians of results that are to be stored.
func table(_ context.Context, args []string) error {
	set := flag.NewFlagSet("bench table", flag.ExitOnError)
	medians := set.Bool("medians", false, "print the medians of the results in the files that are named, to be stored in results")
	_ = set.Parse(args) // it exits
	files := set.Args()
	if !*medians {
		files, _ = filepath.Glob("results/*.jsonl")
	}
	r, err := figures.Read(files...)
	if err != nil {
		return err
	}
	if *medians {
		return r.Write(os.Stdout)
	}
	documents, _ := filepath.Glob("../docs/*.md")
	pages, _ := filepath.Glob("../*.md")
	page, err := r.Page()
	if err == nil {
		err = os.WriteFile("../docs/bench.html", []byte(page), 0o644)
	}
	if err != nil {
		return err
	}
	for _, file := range append(documents, pages...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		written, err := figures.Into(string(text), r.Tables())
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if written != string(text) {
			if err := os.WriteFile(file, []byte(written), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
