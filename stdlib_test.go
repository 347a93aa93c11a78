package interlock_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Whoever imports the root module gets the standard library and nothing else.
func TestTheRootModuleRequiresTheStandardLibraryOnly(t *testing.T) {
	mod := errtest.Must(os.ReadFile("go.mod"))(t)
	for _, word := range []string{"require", "replace", "tool"} {
		failIf(t, strings.Contains(string(mod), word), "go.mod has a line with %q", word)
	}
	list := exec.Command("go", "list", "-test", "-deps", "-f",
		"{{if not .Standard}}{{with .Module}}{{.Path}}{{end}}{{end}}", "./...")
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := list.CombinedOutput()
	fatalIf(t, err != nil, "%v\n%s", err, out)
	for _, module := range strings.Fields(string(out)) {
		failIf(t, module != "github.com/interlock-go/interlock", "it depends on %s", module)
	}
}
