package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newElect(o *options) *cobra.Command {
	var f jobFlags
	var value string
	cmd := &cobra.Command{
		Use:        "elect [flags] NAME -- COMMAND [ARG]…",
		SuggestFor: []string{"leader", "election", "lead"},
		Short:      "Run a command while leading",
		Long: `Elect stands for election and runs the command once it leads. When the leadership is
lost, the command is ended, as by run, and elect stands for election again. When the
command ends by itself, elect resigns and exits with its status. -n and -w say how long it
stands each time.

The job's environment and the exit status are those of run.`,
		Example: `  interlock elect scheduler --value "$(hostname):8080" -- ./scheduler
  interlock observe scheduler`,
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := f.job(cmd, o, args, 1)
			if err != nil {
				return err
			}
			j.again = true
			j.lock = func(c *interlock.Client, name string, opts []interlock.Option) *interlock.Lock {
				return c.Election(name, opts...).Candidate(value)
			}
			return j.run(cmd)
		},
	}
	host, _ := os.Hostname()
	f.add(cmd)
	cmd.Flags().StringVar(&value, "value", fmt.Sprintf("%s:%d", host, os.Getpid()), "what observers see of this candidate")
	cmd.Flags().Lookup("value").DefValue = "host:pid"
	_ = cmd.Flags().MarkHidden("note") // the value is the note
	return cmd
}
