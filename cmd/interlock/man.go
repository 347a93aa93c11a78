package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Write the manual page, made of the help of all commands",
		Hidden: true, // make dist calls it
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), manual(cmd.Root()))
			return err
		},
	}
}

// manual is the page of a command and all below it.
func manual(root *cobra.Command) string {
	var p page
	p.line(".TH %s 1 \"\" %q", strings.ToUpper(root.Name()), root.Name()+" "+version())
	p.line(".SH NAME\n%s \\- %s", root.Name(), roff(root.Short))
	p.line(".SH SYNOPSIS\n.B %s\n.I COMMAND\n[flags] [arguments]", root.Name())
	p.line(".SH DESCRIPTION")
	p.text(root.Long)
	p.line(".SH OPTIONS OF ALL COMMANDS")
	p.flags(root.PersistentFlags())
	p.line(".SH COMMANDS")
	p.commands(root)
	p.line(".SH EXAMPLES")
	p.verbatim(root.Example)
	return p.String()
}

type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) commands(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		if sub.Runnable() && !sub.HasSubCommands() {
			p.line(".SS %s %s", c.CommandPath(), roff(sub.Use))
			p.text(cmp.Or(sub.Long, sub.Short+"."))
			p.flags(sub.LocalNonPersistentFlags())
			if sub.Example != "" {
				p.line(".PP")
				p.verbatim(sub.Example)
			}
		}
		p.commands(sub)
	}
}

// text fills paragraphs. Lines that are indented stay as they are.
func (p *page) text(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		p.line(".PP")
		for l := range strings.SplitSeq(paragraph, "\n") {
			if strings.TrimLeft(l, " \t") != l {
				p.verbatim(l)
			} else {
				p.line("%s", roff(l))
			}
		}
	}
}

func (p *page) verbatim(text string) {
	p.line(".nf")
	for l := range strings.SplitSeq(text, "\n") {
		p.line("%s", roff(l))
	}
	p.line(".fi")
}

func (p *page) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		names := "\\fB" + roff("--"+f.Name) + "\\fR"
		if f.Shorthand != "" {
			names = "\\fB" + roff("-"+f.Shorthand) + "\\fR, " + names
		}
		if value != "" {
			names += " \\fI" + roff(value) + "\\fR"
		}
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "-1" {
			usage += " (default " + f.DefValue + ")"
		}
		p.line(".TP\n%s\n%s", names, roff(usage))
	})
}

// roff is a line of text for a manual page.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
