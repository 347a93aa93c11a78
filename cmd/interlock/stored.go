package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/internal/view"
)

// storedGroup makes the commands for what is stored of one kind.
func storedGroup(o *options, kind, short string, subs ...*cobra.Command) *cobra.Command {
	for _, c := range subs {
		c.ValidArgsFunction = completeStored(o, kind)
	}
	return group(kind, short, subs...)
}

// told is the state in a sentence.
func told(s view.Stored) string {
	switch {
	case s.Error != "":
		return s.State()
	case s.Kind == "value":
		return fmt.Sprintf("has version %s", s.Version)
	case s.Kind == "latch":
		return "is set, " + s.State()
	}
	return "is set"
}

func showStored(v display, all []view.Stored) {
	if len(all) == 0 {
		return
	}
	s := v.sheet(column{name: "name", least: 12}, column{name: "kind"}, column{name: "state"})
	for _, one := range all {
		s.add(one.Name, one.Kind, one.State())
	}
	s.render()
}
