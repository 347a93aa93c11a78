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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.print(cmd, struct {
				Version  string   `json:"version"`
				Go       string   `json:"go"`
				Platform string   `json:"platform"`
				Backends []string `json:"backends"`
			}{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, driver.Schemes()}, "%s", versionLine())
		},
	}
}

// release is set by make dist, which builds from a checkout.
var release string

func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func versionLine() string {
	return fmt.Sprintf("interlock %s (%s, %s/%s), backends: %s",
		version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(driver.Schemes(), " "))
}
