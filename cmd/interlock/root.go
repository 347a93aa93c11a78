package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/driver"
)

// options are the flags of every command.
type options struct {
	urls     []string // of commands with one backend the last counts, as of all flags; see options.backends
	urlFiles []string
	local    bool
	context  string
	json     bool
	form     string  // -o: "", wide, or name
	found    backend // see options.backend
}

func init() { cobra.EnableCommandSorting = false } // a newcomer reads the first lines

func newRoot() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "interlock",
		Short: "Distributed locks from the shell",
		Long: `Interlock runs commands under a distributed lock, and shows who holds and who waits.

The backend is given by --url, --url-file or --context, else by the variable INTERLOCK_URL,
else by the file that INTERLOCK_URL_FILE names, else by the file /etc/interlock/url, else it is a
SQLite file in the user's state directory, which serves all processes of this machine that
this user runs, and no others (--local says that this is meant). A URL with a password
belongs into a file: ps shows that of --url to everybody.

--context prod reads the URL from prod.url in the folder interlock of the user's configuration
(~/.config/interlock), else from /etc/interlock/prod.url.`,
		Example: `  interlock run nightly -- ./backup.sh           wait for the lock, then run
  interlock run -n nightly -- ./backup.sh        give up at once if it is taken (exit 75)
  interlock run -n --at-least 1m nightly -- ./backup.sh
                                                 from cron on each of several machines: one runs it
  interlock ls                                   who holds, who waits`,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case slices.Contains(o.urls, ""):
				return usage("--url is empty")
			case slices.Contains(o.urlFiles, ""):
				return usage("--url-file is empty")
			case cmd.Flags().Changed("context") && o.context == "":
				return usage("--context is empty")
			}
			for _, url := range o.urls {
				warnOfPs(cmd, "--url", url, ": take --url-file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &exitError{code: exitUsage}
		},
	}
	root.PersistentFlags().StringArrayVar(&o.urls, "url", nil, "the `URL` of the backend, such as sqlite:///var/lib/locks.db")
	root.PersistentFlags().StringArrayVar(&o.urlFiles, "url-file", nil, "`file` whose first line, but for comments, is the backend's URL")
	root.PersistentFlags().StringVar(&o.context, "context", "", "the backend whose URL is in the file `NAME`.url: see interlock help")
	_ = root.RegisterFlagCompletionFunc("context", completeContexts)
	root.PersistentFlags().BoolVar(&o.local, "local", false, "the file of this user on this machine is the backend that is meant")
	root.PersistentFlags().BoolVar(&o.json, "json", false, "write JSON for programs")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if m := negative.FindStringSubmatch(err.Error()); m != nil {
			return usage("%s: a number of 0 or more is wanted", m[1])
		}
		if err.Error() == "unknown flag: --log-format" {
			return usage("%v: --json has the log in JSON, too", err)
		}
		text := notANumber.ReplaceAllString(err.Error(), ": a whole number is wanted")
		return usage("%s (see %s --help)", text, cmd.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: "job", Title: "Run under a lock:"},
		&cobra.Group{ID: "look", Title: "Look and interfere:"},
		&cobra.Group{ID: "share", Title: "Coordinate:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("job", newRun(o), newElect(o), newFence(o), newAcquire(o), newExtend(o), newRelease(o))
	add("look", newLs(o), newShow(o), newWatch(o), newTop(o), newUI(o), newRevoke(o), newEvict(o), newPermits(o), newDoctor(o))
	add("share", newObserve(o), newLatch(o), newBarrier(o), newValue(o), newServe(o))
	root.AddCommand(newDemo(o), newAdmin(o), newMan(), newVersion(o))
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args, help.Run = cobra.ArbitraryArgs, nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		cmd, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return unknown(root, strings.Join(args, " "))
		}
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	}
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.RunE = noArgs, root.RunE
	for _, c := range completion.Commands() {
		c.Args = takes()
	}
	takeWhatTheyUse(o, root)
	return root
}

// warnOfPs says that everybody can read the password of a URL that a flag has, and what to do instead.
func warnOfPs(cmd *cobra.Command, flag, url, instead string) {
	if u, err := driver.ParseURL(url); err == nil && u.Secret() {
		fmt.Fprintf(cmd.ErrOrStderr(), "interlock: the URL of %s has a password, or may have one, and ps shows it to all users of this machine%s\n", flag, instead)
	}
}

// notANumber is how flags say that a value is no number, or is one too large.
var notANumber = regexp.MustCompile(`: strconv\.Parse\w+: .*$`)

// negative is what the parser of flags says of a number below 0 that stands where an argument does.
var negative = regexp.MustCompile(`^unknown shorthand flag: '[0-9]' in (-[0-9.]+)$`)

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknown(cmd, args[0])
	}
	return nil
}

// unknown names commands that may have been meant.
func unknown(cmd *cobra.Command, arg string) error {
	if like := suggestions(cmd, arg); len(like) > 0 {
		return usage("unknown command %q: did you mean %s?", arg, strings.Join(like, ", "))
	}
	return usage("unknown command %q (see %s --help)", arg, cmd.CommandPath())
}

// suggestions are the subcommands like arg, or, if there is none, those of the subcommands.
func suggestions(cmd *cobra.Command, arg string) (like []string) {
	cmd.SuggestionsMinimumDistance = 2 // letters that differ, at most
	for _, name := range cmd.SuggestionsFor(arg) {
		like = append(like, cmd.CommandPath()+" "+name)
	}
	if len(like) > 0 {
		return like
	}
	for _, sub := range cmd.Commands() {
		like = append(like, suggestions(sub, arg)...)
	}
	return like
}

// takes checks that the arguments are there. One in brackets can be left out.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names) && names[len(args)][0] != '[':
			return usage("%s is missing (see %s --help)", names[len(args)], cmd.CommandPath())
		case len(args) > len(names):
			return usage("unexpected argument %q (see %s --help)", args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

// takeWhatTheyUse has the commands below cmd take the arguments that their Use says, unless there is a -- in it, and
// offer names of locks where it says NAME or PREFIX.
func takeWhatTheyUse(o *options, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.ValidArgsFunction == nil && (strings.Contains(c.Use, "NAME") || strings.Contains(c.Use, "PREFIX")) {
			c.ValidArgsFunction = completeNames(o)
		}
		if c.Args == nil && !strings.Contains(c.Use, "--") {
			c.Args = takes(strings.Fields(c.Use)[1:]...)
		}
		takeWhatTheyUse(o, c)
	}
}

// group makes a command that only has subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return failed(exitUsage, errors.New(cmd.CommandPath()+" needs a command (see --help)"))
	}}
	c.AddCommand(subs...)
	return c
}
