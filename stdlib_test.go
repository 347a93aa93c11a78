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
		if strings.Contains(string(mod), word) {
			t.Errorf("go.mod has a line with %q", word)
		}
	}
	list := exec.Command("go", "list", "-test", "-deps", "-f",
		"{{if not .Standard}}{{with .Module}}{{.Path}}{{end}}{{end}}", "./...")
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, module := range strings.Fields(string(out)) {
		if module != "github.com/interlock-go/interlock" {
			t.Errorf("it depends on %s", module)
		}
	}
}
