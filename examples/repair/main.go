// Repair moves stock between two shelves, each a file of its own, so that no transaction covers
// both. A process that is killed in between leaves the work half done. The next holder of the lock
// is told so (ReportDeath, Lease.Inherited), and repairs it before it begins.
//
//	go run ./repair sqlite:locks.db shelves 5    # moves 5 from shelf a to shelf b
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: repair URL FOLDER PIECES")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = move(ctx, os.Args[1], folder{os.Args[2], func() {}}, n)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// move moves n pieces from shelf a to shelf b.
func move(ctx context.Context, url string, f folder, n int) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	return locks.Mutex("shelves", interlock.ReportDeath()).Do(ctx, func(ctx context.Context) error {
		if interlock.LeaseFrom(ctx).Inherited() {
			// It may also say so without need: repair has to find out by itself.
			if err := f.repair(); err != nil {
				return fmt.Errorf("repair what the last holder has left: %w", err)
			}
		}
		now := shelves{A: 100} // at the beginning
		if err := errors.Join(f.read("a", &now.A), f.read("b", &now.B)); err != nil {
			return err
		}
		if now.A < n {
			return fmt.Errorf("shelf a has %d pieces, not %d", now.A, n)
		}
		if err := ctx.Err(); err != nil { // the last moment to stop without a trace
			return context.Cause(ctx)
		}
		// The plan is there first, and goes last.
		to := shelves{now.A - n, now.B + n}
		if err := f.write("plan", to); err != nil {
			return err
		}
		return f.carryOut(to)
	})
}

// shelves are how many pieces are where.
type shelves struct{ A, B int }

// folder has a file for each shelf, and while they are changed a file plan: what they will hold.
type folder struct {
	dir  string
	half func() // called when one shelf is changed, and the other is not
}

// carryOut does no harm if it is done twice, since a plan says what the shelves hold afterwards, not
// what is added.
func (f folder) carryOut(to shelves) error {
	if err := f.write("a", to.A); err != nil {
		return err
	}
	f.half()
	if err := f.write("b", to.B); err != nil {
		return err
	}
	return os.Remove(filepath.Join(f.dir, "plan"))
}

// repair carries out the plan that is there, if there is one.
func (f folder) repair() error {
	var none, to shelves
	if err := f.read("plan", &to); err != nil || to == none {
		return err
	}
	fmt.Println("the last holder died in the middle: carrying out its plan", to)
	return f.carryOut(to)
}

// read leaves v as it is if there is no such file.
func (f folder) read(name string, v any) error {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// write replaces a file as a whole.
func (f folder) write(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(f.dir, name)
	if err := os.WriteFile(file+".next", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".next", file)
}
