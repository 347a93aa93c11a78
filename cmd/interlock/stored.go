package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// storedGroup makes the commands for what is stored of one kind.
func storedGroup(o *options, kind, short string, subs ...*cobra.Command) *cobra.Command {
	for _, c := range subs {
		c.ValidArgsFunction = completeStored(o, kind)
	}
	return group(kind, short, subs...)
}

// stored is a value, a latch or a barrier with its state.
type stored struct {
	interlock.Stored
	left    int64  // of a latch
	version uint64 // of a value
	bytes   int    // of a value
	wrong   string // why it cannot be read
}

// read adds what it is; it may have gone meanwhile.
func (s *stored) read(ctx context.Context, c *interlock.Client) (there bool, err error) {
	switch s.Kind {
	case "barrier":
		return c.Barrier(s.Name).IsSet(ctx)
	case "latch":
		s.left, there, err = c.Latch(s.Name).Count(ctx)
	case "value":
		var got interlock.Snapshot[[]byte]
		got, err = interlock.NewValue[[]byte](c, s.Name).Get(ctx)
		there, s.version, s.bytes = got.Exists, got.Version, len(got.Value)
	}
	if err != nil && alone(ctx, err) {
		s.wrong = reason(err)
	}
	return there || s.wrong != "", err
}

func allStored(ctx context.Context, c *interlock.Client, prefix string) (all []stored, err error) {
	for found, err := range c.Admin().Stored(ctx, prefix) {
		if err != nil {
			return all, err
		}
		s := stored{Stored: found}
		there, err := true, error(nil)
		if s.Kind != "barrier" { // the list has said that it is set
			there, err = s.read(ctx, c)
		}
		if err != nil && s.wrong == "" {
			return all, err
		}
		if there {
			all = append(all, s)
		}
	}
	return all, nil
}

// alone reports whether an error is of one name, which the others need not suffer from: that of a
// backend that does not answer comes when ctx has ended.
func alone(ctx context.Context, err error) bool {
	return !errors.Is(err, interlock.ErrClosed) && ctx.Err() == nil
}

// storedJSON is what latch show, barrier show and value get write, with the kind, and without the
// value itself.
type storedJSON struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Error   string `json:"error,omitempty"`
	Set     bool   `json:"set,omitempty"`
	Left    *int64 `json:"left,omitempty"`
	Exists  bool   `json:"exists,omitempty"`
	Version string `json:"version,omitempty"`
	Bytes   *int   `json:"bytes,omitempty"`
}

func (s stored) json() any {
	j := storedJSON{Name: s.Name, Kind: s.Kind, Error: s.wrong}
	switch {
	case s.wrong != "":
	case s.Kind == "latch":
		j.Set, j.Left = true, &s.left
	case s.Kind == "value":
		j.Exists, j.Version, j.Bytes = true, strconv.FormatUint(s.version, 10), &s.bytes
	default:
		j.Set = true
	}
	return j
}

func (s stored) state() string {
	switch {
	case s.wrong != "":
		return "cannot be read: " + s.wrong
	case s.Kind == "latch":
		return fmt.Sprintf("%d left", s.left)
	case s.Kind == "value":
		return fmt.Sprintf("version %d, %d bytes", s.version, s.bytes)
	}
	return "set"
}

// told is the state in a sentence.
func (s stored) told() string {
	switch {
	case s.wrong != "":
		return s.state()
	case s.Kind == "value":
		return fmt.Sprintf("has version %d", s.version)
	case s.Kind == "latch":
		return "is set, " + s.state()
	}
	return "is set"
}

func showStored(v view, all []stored) {
	if len(all) == 0 {
		return
	}
	s := v.sheet(column{name: "name", least: 12}, column{name: "kind"}, column{name: "state"})
	for _, one := range all {
		s.add(one.Name, one.Kind, one.state())
	}
	s.render()
}
