// Command replaces writes the replace directives by which the modules of this
// repository find their siblings, and then says what is left for a person to do.
package main

import (
	"fmt"
	"os"

	"github.com/interlock-go/interlock/internal/tools/modules"
)

func main() {
	if err := run("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "replaces:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	t, err := modules.Read(root)
	if err != nil {
		return err
	}
	if err := t.Replace(); err != nil {
		return err
	}
	problems, err := t.Problems()
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems left", len(problems))
	}
	return nil
}
