package view

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// Stored is a value, a latch or a barrier with its state, without the value itself.
type Stored struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Error   string `json:"error,omitempty"` // why it cannot be read
	Set     bool   `json:"set,omitempty"`   // of a latch or a barrier
	Left    *int64 `json:"left,omitempty"`
	Exists  bool   `json:"exists,omitempty"` // of a value
	Version string `json:"version,omitempty"`
	Bytes   *int   `json:"bytes,omitempty"`
}

// read reads the state; what is stored may have gone meanwhile. What cannot be read is there, unless it is a barrier.
func read(ctx context.Context, c *interlock.Client, kind, name string) (s Stored, there bool, err error) {
	s = Stored{Name: name, Kind: kind}
	switch kind {
	case "barrier":
		s.Set, err = c.Barrier(name).IsSet(ctx)
		return s, s.Set, err
	case "latch":
		var left int64
		left, s.Set, err = c.Latch(name).Count(ctx)
		s.Left = &left
	case "value":
		var got interlock.Snapshot[[]byte]
		got, err = interlock.NewValue[[]byte](c, name).Get(ctx)
		n := len(got.Value)
		s.Exists, s.Version, s.Bytes = got.Exists, strconv.FormatUint(got.Version, 10), &n
	}
	if err != nil && Alone(ctx, err) {
		return Stored{Name: name, Kind: kind, Error: Reason(err)}, true, err
	}
	return s, s.Set || s.Exists, err
}

// AllStored reads what is stored below a prefix, at most so many. With an error comes what could be read.
func AllStored(ctx context.Context, c *interlock.Client, prefix string, most int) (all []Stored, err error) {
	for found, err := range c.Admin().Stored(ctx, prefix) {
		if err != nil || len(all) == most {
			return all, err
		}
		s, there := Stored{Name: found.Name, Kind: found.Kind, Set: true}, true
		if s.Kind != "barrier" { // the list has said that it is set
			if s, there, err = read(ctx, c, found.Kind, found.Name); err != nil && s.Error == "" {
				return all, err
			}
		}
		if there {
			all = append(all, s)
		}
	}
	return all, nil
}

// Alone reports whether an error is of one name, which the others need not suffer from. The error of a backend that
// does not answer comes when ctx has ended.
func Alone(ctx context.Context, err error) bool {
	return !errors.Is(err, interlock.ErrClosed) && ctx.Err() == nil
}

// State is what is stored, in a few words.
func (s Stored) State() string {
	switch {
	case s.Error != "":
		return "cannot be read: " + s.Error
	case s.Kind == "latch":
		return fmt.Sprintf("%d left", *s.Left)
	case s.Kind == "value":
		return fmt.Sprintf("version %s, %d bytes", s.Version, *s.Bytes)
	}
	return "set"
}

// Reason is an error without what the library was called for.
func Reason(err error) string { return strings.TrimPrefix(Why(err).Error(), "interlock: ") }

// Why is what has failed, of an error of the library.
func Why(err error) error {
	var e *interlock.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Name is all that has one name.
type Name struct {
	interlock.Queue
	Barrier string `json:"barrier,omitempty"`       // set
	Latch   *int64 `json:"latch,omitempty"`         // the count
	Version string `json:"value_version,omitempty"` // of the value

	Unreadable map[string]string `json:"unreadable,omitempty"` // kinds, and why

	Stored []Stored `json:"-"` // the same
}

// Named reads all that has a name.
func Named(ctx context.Context, c *interlock.Client, name string) (Name, error) {
	q, err := c.Admin().Queue(ctx, name)
	if err != nil {
		return Name{}, err
	}
	return Besides(ctx, c, q)
}

// Besides adds to a lock what else has its name. What the backend cannot have there, such as a barrier of Curator where
// a lock is, is not there.
func Besides(ctx context.Context, c *interlock.Client, q interlock.Queue) (Name, error) {
	n := Name{Queue: q, Unreadable: map[string]string{}}
	for _, kind := range []string{"barrier", "latch", "value"} {
		s, there, err := read(ctx, c, kind, q.Name)
		switch {
		case kind == "barrier" && driver.IsPermanent(err):
			continue
		case err != nil && s.Error == "":
			return n, err
		case errors.Is(err, errors.ErrUnsupported):
			return n, nil // the backend has locks only
		case !there:
			continue
		}
		n.Stored = append(n.Stored, s)
		switch {
		case s.Error != "":
			n.Unreadable[kind] = s.Error
		case kind == "barrier":
			n.Barrier = "set"
		case kind == "latch":
			n.Latch = s.Left
		default:
			n.Version = s.Version
		}
	}
	return n, nil
}
