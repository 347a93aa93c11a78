package main

import "github.com/spf13/cobra"

// newAdmin has what operators do when a backend is set up, or moves.
func newAdmin(o *options) *cobra.Command {
	return group("admin", "Set a backend up, or move to another one", newSchema(o), newQuorumURL(o), newRaiseToken(o))
}
