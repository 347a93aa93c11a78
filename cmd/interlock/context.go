package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// contextName is a name of a file that stays in its folder.
var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// contextDirs are where the files NAME.url of contexts are: of this user first.
func contextDirs() (dirs []string) {
	if own, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(own, "interlock"))
	}
	return append(dirs, filepath.Dir(urlFile))
}

// ofContext is the backend of a context, as --url-file reads it.
func ofContext(ctx context.Context, name string) (backend, error) {
	if !contextName.MatchString(name) {
		return backend{}, usage("--context %q: letters, digits, dots, - and _ are possible", name)
	}
	dirs := contextDirs()
	for _, dir := range dirs {
		file := filepath.Join(dir, name+".url")
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return namedFile(ctx, "--context", file)
		}
	}
	return backend{}, usage("--context %s: there is no %s.url in %s", name, name, strings.Join(dirs, " or "))
}

// completeContexts offers the names of the contexts.
func completeContexts(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, dir := range contextDirs() {
		files, _ := filepath.Glob(filepath.Join(dir, "*.url"))
		for _, file := range files {
			if name := strings.TrimSuffix(filepath.Base(file), ".url"); contextName.MatchString(name) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
