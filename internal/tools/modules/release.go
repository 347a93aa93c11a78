package modules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// CheckVersion reports why a version cannot be released.
func CheckVersion(version string) error {
	switch major := semver.Major(version); {
	case semver.Canonical(version) != version || version == "":
		return fmt.Errorf("version %q must have the form v1.2.3 or v1.2.3-rc.1", version)
	case module.IsPseudoVersion(version):
		return fmt.Errorf("version %q has the form that the go command gives to untagged commits", version)
	case major != "v0" && major != "v1":
		return fmt.Errorf("version %q needs module paths that end in /%s", version, major)
	}
	return nil
}

// Release writes the go.mod files of a release: siblings are required in this
// version, and commands have no replace directives, since "go install
// path@version" refuses them; in all other modules it ignores them.
func (t *Tree) Release(version string) error {
	if err := CheckVersion(version); err != nil {
		return err
	}
	for _, m := range t.Modules {
		for _, r := range slices.Clone(m.File.Require) {
			if t.sibling(r.Mod.Path) {
				if err := m.File.AddRequire(r.Mod.Path, version); err != nil {
					return err
				}
			}
		}
		if strings.HasPrefix(m.Dir, "cmd/") {
			if err := t.dropReplaces(m); err != nil {
				return err
			}
			m.File.Cleanup()
			if left := m.File.Replace; len(left) > 0 {
				return fmt.Errorf("%s/go.mod replaces %s: go install refuses a command with replace directives", m.Dir, left[0].Old.Path)
			}
		}
		if err := t.write(m); err != nil {
			return err
		}
	}
	return nil
}

// Tags are the names of the release's tags, one for each module.
func (t *Tree) Tags(version string) []string {
	var tags []string
	for _, m := range t.Modules {
		tags = append(tags, path.Join(m.Dir, version))
	}
	return tags
}
