package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// formFlag adds -o to a command that shows tables.
func formFlag(cmd *cobra.Command, o *options, all ...cobra.Completion) {
	help := "a `FORM` of the tables; wide: show all columns in full, however wide the terminal is"
	if slices.Contains(all, "name") {
		help += "; name: only names, a line each"
	}
	cmd.Flags().FuncP("output", "o", help, func(s string) error {
		if !slices.Contains(all, s) {
			return fmt.Errorf("there is only -o %s (--json is for programs)", strings.Join(all, ", -o "))
		}
		o.form = s
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
}
