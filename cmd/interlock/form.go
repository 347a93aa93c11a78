package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// form is the flag -o.
type form struct {
	o   *options
	all []cobra.Completion
}

func (f form) Set(s string) error {
	if !slices.Contains(f.all, s) {
		return fmt.Errorf("there is only -o %s (--json is for programs)", strings.Join(f.all, ", -o "))
	}
	f.o.form = s
	return nil
}

func (f form) String() string { return "" }
func (f form) Type() string   { return strings.Join(f.all, "|") }

// formFlag adds -o to a command that shows tables.
func formFlag(cmd *cobra.Command, o *options, all ...cobra.Completion) {
	help := "wide: show all columns in full, however wide the terminal is"
	if slices.Contains(all, "name") {
		help += "; name: only names, a line each"
	}
	cmd.Flags().VarP(form{o, all}, "output", "o", help)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}
