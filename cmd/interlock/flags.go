package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// waitFlags say how a command waits for a lock.
type waitFlags struct {
	note    string
	quiet   bool
	verbose bool
	try     bool
	wait    time.Duration
	bounded bool // --wait is given
	busy    int
}

// add adds the flags; unnamed is the note if none is given.
func (f *waitFlags) add(cmd *cobra.Command, unnamed string) {
	cmd.Flags().StringVar(&f.note, "note", "", "shown by ls and show"+unnamed)
	f.addWait(cmd)
	cmd.Flags().BoolVarP(&f.try, "nonblock", "n", false, "give up at once if the lock is busy")
}

func (f *waitFlags) addWait(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "say nothing when it gives up waiting")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "say what happens")
	durationVar(cmd.Flags(), &f.wait, "wait", "w", "give up waiting after this time, such as 90 or 1m30s")
	cmd.Flags().IntVarP(&f.busy, "conflict-exit-code", "E", exitBusy, "exit status when it gives up waiting")
}

// check refuses flags that contradict each other.
func (f *waitFlags) check(cmd *cobra.Command) error {
	f.bounded = cmd.Flags().Changed("wait")
	if f.try && f.bounded {
		return usage("-n and -w exclude each other")
	}
	if f.busy < 0 || f.busy > 255 {
		return usage("-E %d: an exit status is 0 to 255", f.busy)
	}
	return nil
}

// options are those of the lock, without the time to wait.
func (f *waitFlags) options(note string) []interlock.Option {
	opts := []interlock.Option{interlock.Note(note)}
	if f.try {
		opts = append(opts, interlock.Wait(0))
	}
	return opts
}

// jobFlags are those of commands that run a job under a lock.
type jobFlags struct {
	waitFlags
	shell    string
	ttl      time.Duration
	atMost   time.Duration
	statusFD int
	revoked  string
	passURL  bool
}

// shortestTTL is that of jobs: to start the guard or to be without a processor for a moment
// takes too much of a shorter one.
const shortestTTL = 2 * time.Second

func (f *jobFlags) add(cmd *cobra.Command) {
	f.waitFlags.add(cmd, " (default: the command's name)")
	durationVar(cmd.Flags(), &f.atMost, "at-most", "", "end the command after this time under the lock, as when the lock is lost")
	f.addJob(cmd)
}

func (f *jobFlags) addJob(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.shell, "command", "c", "", "run this line of shell instead of a command")
	durationVar(cmd.Flags(), &f.ttl, "ttl", "", "how long the lock outlives a machine that died, at least 2s (default 15s)")
	cmd.Flags().IntVar(&f.statusFD, "status-fd", -1, "write what happens to this descriptor, a line each")
	cmd.Flags().StringVar(&f.revoked, "on-revoke", "", "send this signal (TERM, USR1, …) to the job when somebody asks for the lock")
	cmd.Flags().BoolVar(&f.passURL, "pass-url", false, "give the job the backend's URL, with its password, as INTERLOCK_URL")
	_ = cmd.RegisterFlagCompletionFunc("on-revoke", completeSignals)
}
