//go:build linux

package guard_test

import (
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// listen is a job that says which signals it gets, until its input ends. A shell's read
// does not say so if the signal comes just before it.
func listen() {
	caught := make(chan os.Signal, 10)
	signal.Notify(caught, unix.SIGINT, unix.SIGUSR1)
	go func() {
		for s := range caught {
			fmt.Println("caught", s)
		}
	}()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
