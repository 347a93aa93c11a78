package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: the remedy of a deadlock names a lock that the URL can name, and says so if there is none.
func TestTheRemedyOfADeadlockOutsideOfThePrefix(t *testing.T) {
	inside := interlock.Blocked{Name: "inside", By: interlock.Member{ID: "1"}}
	outside := interlock.Blocked{Name: "other/outside", By: interlock.Member{ID: "2"}, Outside: true}
	for want, waits := range map[string][]interlock.Blocked{
		"such as: interlock evict inside 1":                                    {inside, outside},
		"such as, with a URL without prefix=: interlock evict other/outside 2": {outside, outside},
	} {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		errtest.None(t, (&options{}).reportDeadlocks(cmd, []interlock.Deadlock{{Waits: waits}}, map[*interlock.Client]string{nil: "mem:"}))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %s", out.String(), want)
		}
	}
}
