package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/interlock-go/interlock/bench/figures"
)

// tables is the command table: it writes the tables of the documents from the results that are
// stored, or the medians of results that are to be stored.
func tables(args []string) error {
	set := flag.NewFlagSet("bench table", flag.ExitOnError)
	set.Usage = func() {
		fmt.Fprint(set.Output(), "usage: bench table                   writes the tables of the documents from results/*.jsonl\n       bench table -medians RESULTS…  prints what to store there\n")
	}
	medians := set.Bool("medians", false, "print the medians of these results")
	_ = set.Parse(args) // it exits
	if *medians {
		r, err := figures.Read(set.Args()...)
		if err != nil {
			return err
		}
		return r.Write(os.Stdout)
	}
	stored, err := filepath.Glob("results/*.jsonl")
	if err != nil {
		return err
	}
	r, err := figures.Read(stored...)
	if err != nil {
		return err
	}
	documents, _ := filepath.Glob("../docs/*.md")
	pages, _ := filepath.Glob("../*.md")
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
