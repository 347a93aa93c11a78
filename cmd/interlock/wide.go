package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// wide is the flag -o wide.
type wide struct{ on *bool }

func (v wide) Set(s string) error {
	if s != "wide" {
		return errors.New("there is only -o wide (--json is for programs)")
	}
	*v.on = true
	return nil
}

func (v wide) String() string { return "" }
func (v wide) Type() string   { return "wide" }

// wideFlag adds -o wide to a command that shows tables.
func wideFlag(cmd *cobra.Command, o *options) {
	cmd.Flags().VarP(wide{&o.wide}, "output", "o", "show all columns in full, however wide the terminal is")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"wide"}, cobra.ShellCompDirectiveNoFileComp))
}
