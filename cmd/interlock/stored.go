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

func allStored(ctx context.Context, c *interlock.Client, prefix string) (all []stored, err error) {
	for found, err := range c.Stored(ctx, prefix) {
		if err != nil {
			return all, err
		}
		s, there := stored{Stored: found}, true // it may have gone meanwhile
		switch s.Kind {
		case "latch":
			s.left, there, err = c.Latch(s.Name).Count(ctx)
		case "value":
			var got interlock.Snapshot[[]byte]
			got, err = interlock.NewValue[[]byte](c, s.Name).Get(ctx)
			there, s.version, s.bytes = got.Exists, got.Version, len(got.Value)
		}
		if err != nil && !alone(ctx, err) {
			return all, err
		}
		if err != nil {
			s.wrong = reason(err)
		}
		if there || s.wrong != "" {
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

// json is what latch show, barrier show and value get write, with the kind, and without the
// value itself.
func (s stored) json() any {
	type base struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
	b := base{s.Name, s.Kind}
	switch {
	case s.wrong != "":
		return struct {
			base
			Error string `json:"error"`
		}{b, s.wrong}
	case s.Kind == "latch":
		return struct {
			base
			Set  bool  `json:"set"`
			Left int64 `json:"left"`
		}{b, true, s.left}
	case s.Kind == "value":
		return struct {
			base
			Exists  bool   `json:"exists"`
			Version string `json:"version"`
			Bytes   int    `json:"bytes"`
		}{b, true, strconv.FormatUint(s.version, 10), s.bytes}
	}
	return struct {
		base
		Set bool `json:"set"`
	}{b, true}
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
