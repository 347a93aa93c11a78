// Repair moves stock between two shelves, each a file of its own, so that no transaction covers
// both. A process that is killed in between leaves the work half done. The next holder of the lock
// is told so (Robust, Lease.Inherited), and repairs it before it begins.
//
//	go run ./repair sqlite:locks.db shelves 5    # moves 5 from shelf a to shelf b
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: repair URL FOLDER PIECES")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = move(ctx, os.Args[1], folder{os.Args[2], func() {}}, n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "repair:", err)
		os.Exit(1)
	}
}

// move moves n pieces from shelf a to shelf b.
func move(ctx context.Context, url string, f folder, n int) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	return locks.Mutex("shelves", interlock.Robust()).Do(ctx, func(ctx context.Context) error {
		if interlock.LeaseFrom(ctx).Inherited() {
			// It may also say so without need: repair has to find out by itself.
			if err := f.repair(); err != nil {
				return fmt.Errorf("repair what the last holder has left: %w", err)
			}
		}
		now, err := f.read()
		if err != nil {
			return err
		}
		if now.A < n {
			return fmt.Errorf("shelf a has %d pieces, not %d", now.A, n)
		}
		if err := ctx.Err(); err != nil { // the last moment to stop without a trace
			return context.Cause(ctx)
		}
		return f.change(shelves{now.A - n, now.B + n})
	})
}

// shelves are how many pieces are where.
type shelves struct{ A, B int }

// folder has a file for each shelf, and while they are changed a file plan: what they will hold.
type folder struct {
	dir  string
	half func() // called when one shelf is changed, and the other is not
}

// change writes the plan first, and removes it last. To carry out a plan twice does no harm, since
// it says what the shelves hold afterwards, not what is added.
func (f folder) change(to shelves) error {
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if err := f.write("plan", text); err != nil {
		return err
	}
	return f.carryOut(to)
}

func (f folder) carryOut(to shelves) error {
	if err := f.write("a", []byte(strconv.Itoa(to.A))); err != nil {
		return err
	}
	f.half()
	if err := f.write("b", []byte(strconv.Itoa(to.B))); err != nil {
		return err
	}
	return os.Remove(filepath.Join(f.dir, "plan"))
}

// repair carries out the plan that is there, if there is one.
func (f folder) repair() error {
	text, err := os.ReadFile(filepath.Join(f.dir, "plan"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var to shelves
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		return err
	}
	fmt.Println("the last holder died in the middle: carrying out its plan", to)
	return f.carryOut(to)
}

// read returns what is on the shelves: at the beginning 100 and nothing.
func (f folder) read() (s shelves, err error) {
	for _, shelf := range []struct {
		name  string
		n     *int
		begin int
	}{{"a", &s.A, 100}, {"b", &s.B, 0}} {
		text, err := os.ReadFile(filepath.Join(f.dir, shelf.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			*shelf.n = shelf.begin
		case err != nil:
			return s, err
		default:
			if *shelf.n, err = strconv.Atoi(string(text)); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// write replaces a file as a whole.
func (f folder) write(name string, text []byte) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	next := filepath.Join(f.dir, name+".next")
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(f.dir, name))
}
