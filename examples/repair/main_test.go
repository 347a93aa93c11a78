package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// dies marks the copy of the test binary that is killed in the middle of its work.
const dies = "INTERLOCK_EXAMPLE_DIES"

func TestMain(m *testing.M) {
	if os.Getenv(dies) != "" {
		err := move(context.Background(), os.Args[1], folder{os.Args[2], func() {
			fmt.Println("half")
			select {}
		}}, 5)
		fmt.Println(err)
		return
	}
	os.Exit(m.Run())
}

// Promise: what a killed process has left half done is repaired by the next one, before it begins.
func TestTheNextOneRepairsWhatAKilledProcessHasLeft(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
	shop := folder{"shelves", func() {}}
	check := func(want shelves) {
		t.Helper()
		var got shelves
		if err := errors.Join(shop.read("a", &got.A), shop.read("b", &got.B)); got != want || err != nil {
			t.Fatalf("on the shelves: %v, %v; want %v", got, err, want)
		}
	}
	errtest.None(t, move(t.Context(), url, shop, 10))
	check(shelves{90, 10})

	old := exec.Command(os.Args[0], url, shop.dir)
	old.Env = append(os.Environ(), dies+"=1")
	old.Stderr = os.Stderr
	out := errtest.Must(old.StdoutPipe())(t)
	errtest.None(t, old.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "half\n" {
		t.Fatalf("the process that is to be killed says %q, %v", line, err)
	}
	errtest.None(t, old.Process.Kill())
	_ = old.Wait()
	check(shelves{85, 10}) // five pieces are nowhere

	errtest.None(t, move(t.Context(), url, shop, 1))
	check(shelves{84, 16})
	if _, err := os.Stat("shelves/plan"); !os.IsNotExist(err) {
		t.Error("the plan is still there")
	}
	if err := move(t.Context(), url, shop, 85); err == nil {
		t.Error("more than there is: want an error")
	}
}
