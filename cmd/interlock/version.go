package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/driver"
)

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, and the backends that it has",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			version := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			if o.json {
				return writeJSON(cmd.OutOrStdout(), struct {
					Version  string   `json:"version"`
					Go       string   `json:"go"`
					Platform string   `json:"platform"`
					Backends []string `json:"backends"`
				}{version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, driver.Schemes()})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "interlock %s (%s, %s/%s), backends: %s\n",
				version, runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(driver.Schemes(), " "))
			return nil
		},
	}
}
