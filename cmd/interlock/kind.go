package main

import (
	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// kindFlags say which kind of lock a name is, and which side or part of it is wanted.
type kindFlags struct {
	shared    bool
	exclusive bool
	permits   int64
	weight    int64
	semaphore bool // --permits is given
	weighs    bool // --weight is given
}

func (f *kindFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.shared, "shared", "s", false, "the reader's side of a read-write lock")
	cmd.Flags().BoolVarP(&f.exclusive, "exclusive", "x", false, "the writer's side of a read-write lock")
	cmd.Flags().Int64Var(&f.permits, "permits", 1, "a semaphore with so many permits")
	cmd.Flags().Int64Var(&f.weight, "weight", 1, "take so many of the permits")
}

// check refuses flags that contradict each other.
func (f *kindFlags) check(cmd *cobra.Command) error {
	f.semaphore, f.weighs = cmd.Flags().Changed("permits"), cmd.Flags().Changed("weight")
	switch {
	case f.shared && f.exclusive:
		return usage("-s and -x exclude each other")
	case (f.shared || f.exclusive) && f.semaphore:
		return usage("-s and -x are of a read-write lock, --permits is of a semaphore")
	case f.weighs && !f.semaphore:
		return usage("--weight needs --permits")
	case f.weighs && f.permits > 0 && (f.weight < 1 || f.weight > f.permits):
		return usage("--weight %d of --permits %d", f.weight, f.permits)
	}
	return nil
}

func (f *kindFlags) lock(c *interlock.Client, name string, opts []interlock.Option) *interlock.Lock {
	switch {
	case f.semaphore:
		l := c.Semaphore(name, f.permits, opts...)
		if f.weighs {
			l = l.With(interlock.Weight(f.weight))
		}
		return l
	case f.shared:
		return c.RWMutex(name, opts...).Reader()
	case f.exclusive:
		return c.RWMutex(name, opts...).Writer()
	}
	return c.Mutex(name, opts...)
}
