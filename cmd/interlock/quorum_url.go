package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
)

func newQuorumURL(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "quorum-url URL URL URL…",
		Short: "Print the URL of a quorum of several backends",
		Long: `Quorum-url prints the URL of the backend that is made of the given ones: whoever holds a
lock on a majority of them has it. Each URL is one member, and none is opened. An
odd number is best: four survive the loss of one, as three do.

The options ttl, prefix and owner are written behind what is printed, with an "&".`,
		Example: `  export INTERLOCK_URL=$(interlock admin quorum-url redis://r1 redis://r2 redis://r3)
  interlock run nightly -- ./report.sh`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := quorumURL(args)
			if err != nil {
				return usage("%v", err)
			}
			return o.print(cmd, map[string]string{"url": text}, "%s", text)
		},
	}
}

func quorumURL(members []string) (string, error) {
	if len(members) < quorumlock.MinMembers {
		return "", fmt.Errorf("%d URLs: a quorum has at least %d members", len(members), quorumlock.MinMembers)
	}
	var parts []string
	for i, m := range members {
		u, err := driver.ParseURL(m)
		switch {
		case err != nil:
			return "", fmt.Errorf("URL %d: %w", i+1, err)
		case u.Scheme == "quorum":
			return "", fmt.Errorf("URL %d: a member is not a quorum itself", i+1)
		case !slices.Contains(driver.Schemes(), u.Scheme):
			return "", fmt.Errorf("URL %d: its scheme is unknown", i+1)
		case slices.Contains(members[:i], m):
			return "", fmt.Errorf("URL %d: the same member is named twice", i+1)
		}
		parts = append(parts, "member="+url.QueryEscape(m))
	}
	return "quorum:?" + strings.Join(parts, "&"), nil
}
