// Command interlock takes distributed locks from the shell: it runs commands
// under a lock, and shows and changes who holds and who waits.
//
//	interlock run nightly -- ./backup.sh
package main

import (
	"os"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/cmd/interlock/internal/play"
	"github.com/interlock-go/interlock/examples/flashsale"

	_ "github.com/interlock-go/interlock/backend/etcdlock"
	_ "github.com/interlock-go/interlock/backend/filelock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/mysqllock"
	_ "github.com/interlock-go/interlock/backend/pglock"
	_ "github.com/interlock-go/interlock/backend/quorumlock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	_ "github.com/interlock-go/interlock/backend/zklock"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is main, for tests that cannot end with their process.
func run(args []string) int {
	guard.Main(giveBack)   // this process may be the guard of another
	flashsale.WorkerMain() // or a worker of the flash sale
	play.WorkerMain()      // or of interlock ui --demo
	root := newRoot()
	root.SetArgs(args)
	out := &output{File: os.Stdout}
	root.SetOut(out)
	root.SetErr(people{os.Stderr})
	err := root.Execute()
	if err == nil && out.err != nil {
		err = failed(exitIO, out.err)
	}
	return exitCode(root, err)
}
