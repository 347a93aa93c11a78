package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Promise: the manual page has every command and every flag.
func TestTheManualPageHasEverything(t *testing.T) {
	root := newRoot()
	page := manual(root)
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		if c.Runnable() && !c.HasSubCommands() && !c.Hidden && c.Name() != "help" && !strings.Contains(page, ".SS "+c.Parent().CommandPath()+" "+roff(c.Use)+"\n") {
			t.Errorf("%s is not in the manual page", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && f.Name != "version" && !strings.Contains(page, roff("--"+f.Name)) {
				t.Errorf("--%s of %s is not in the manual page", f.Name, c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(root)
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, ".") {
			request, _, _ := strings.Cut(line[1:], " ")
			if !strings.Contains(" TH SH SS PP TP B I nf fi ", " "+request+" ") {
				t.Errorf("line %d begins with an unknown request: %s", i+1, line)
			}
		}
	}
}
