// Command release tags HEAD as a release of every module.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/interlock-go/interlock/internal/tools/modules"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make release VERSION=v1.2.3")
		os.Exit(2)
	}
	tags, err := modules.Tag("../..", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Printf("Tagged. To publish:\n\n\tgit push --atomic origin %s\n", strings.Join(tags, " "))
}
