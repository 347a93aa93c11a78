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

// Stored is a value, a latch or a barrier with its state.
type Stored struct {
	interlock.Stored
	Left    int64  // of a latch
	Version uint64 // of a value
	Bytes   int    // of a value
	Wrong   error  // why it cannot be read
}

// read adds the state; what is stored may have gone meanwhile.
func (s *Stored) read(ctx context.Context, c *interlock.Client) (there bool, err error) {
	switch s.Kind {
	case "barrier":
		there, err = c.Barrier(s.Name).IsSet(ctx)
	case "latch":
		s.Left, there, err = c.Latch(s.Name).Count(ctx)
	case "value":
		var got interlock.Snapshot[[]byte]
		got, err = interlock.NewValue[[]byte](c, s.Name).Get(ctx)
		there, s.Version, s.Bytes = got.Exists, got.Version, len(got.Value)
	}
	if err != nil && s.Kind != "barrier" && Alone(ctx, err) {
		s.Wrong = err
	}
	return there || s.Wrong != nil, err
}

// AllStored reads what is stored below a prefix, at most so many. With an error comes what could be read.
func AllStored(ctx context.Context, c *interlock.Client, prefix string, most int) (all []Stored, err error) {
	for found, err := range c.Admin().Stored(ctx, prefix) {
		if err != nil || len(all) == most {
			return all, err
		}
		s := Stored{Stored: found}
		there := s.Kind == "barrier" // the list has said that it is set
		if !there {
			if there, err = s.read(ctx, c); err != nil && s.Wrong == nil {
				return all, err
			}
		}
		if there {
			all = append(all, s)
		}
	}
	return all, nil
}

// Alone reports whether an error is of one name, which the others need not suffer from. The error of a backend that does
// not answer comes when ctx has ended.
func Alone(ctx context.Context, err error) bool {
	return !errors.Is(err, interlock.ErrClosed) && ctx.Err() == nil
}

// State is what is stored, in a few words.
func (s Stored) State() string {
	switch {
	case s.Wrong != nil:
		return "cannot be read: " + reason(s.Wrong)
	case s.Kind == "latch":
		return fmt.Sprintf("%d left", s.Left)
	case s.Kind == "value":
		return fmt.Sprintf("version %d, %d bytes", s.Version, s.Bytes)
	}
	return "set"
}

// StoredJSON is how programs see what is stored, without the value itself.
type StoredJSON struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Error   string `json:"error,omitempty"`
	Set     bool   `json:"set,omitempty"`
	Left    *int64 `json:"left,omitempty"`
	Exists  bool   `json:"exists,omitempty"`
	Version string `json:"version,omitempty"`
	Bytes   *int   `json:"bytes,omitempty"`
}

// JSON is what is stored, for programs.
func (s Stored) JSON() StoredJSON {
	j := StoredJSON{Name: s.Name, Kind: s.Kind}
	switch {
	case s.Wrong != nil:
		j.Error = reason(s.Wrong)
	case s.Kind == "latch":
		j.Set, j.Left = true, &s.Left
	case s.Kind == "value":
		j.Exists, j.Version, j.Bytes = true, strconv.FormatUint(s.Version, 10), &s.Bytes
	default:
		j.Set = true
	}
	return j
}

// reason is an error without what the library was called for.
func reason(err error) string {
	var e *interlock.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return strings.TrimPrefix(err.Error(), "interlock: ")
}

// Name is all that has one name.
type Name struct {
	interlock.Queue
	Stored []Stored
}

// Named reads all that has a name.
func Named(ctx context.Context, c *interlock.Client, name string) (Name, error) {
	q, err := c.Admin().Queue(ctx, name)
	if err != nil {
		return Name{}, err
	}
	return Besides(ctx, c, q)
}

// Besides adds to a lock what else has its name. What the backend cannot have there, such as a barrier of Curator where a
// lock is, is not there.
func Besides(ctx context.Context, c *interlock.Client, q interlock.Queue) (Name, error) {
	n := Name{Queue: q}
	for _, kind := range []string{"barrier", "latch", "value"} {
		s := Stored{Stored: interlock.Stored{Kind: kind, Name: q.Name}}
		there, err := s.read(ctx, c)
		switch {
		case kind == "barrier" && driver.IsPermanent(err):
		case err != nil && s.Wrong == nil:
			return n, err
		case errors.Is(err, errors.ErrUnsupported):
			return n, nil // the backend has locks only
		case there:
			n.Stored = append(n.Stored, s)
		}
	}
	return n, nil
}

// NameJSON is how programs see a name.
type NameJSON struct {
	Queue
	Barrier string `json:"barrier,omitempty"`       // set
	Latch   *int64 `json:"latch,omitempty"`         // the count
	Version string `json:"value_version,omitempty"` // of the value

	Unreadable map[string]string `json:"unreadable,omitempty"` // kinds, and why
}

// JSON is all that has one name, for programs.
func (n Name) JSON() NameJSON {
	j := NameJSON{Queue: QueueOf(n.Queue), Unreadable: map[string]string{}}
	for _, s := range n.Stored {
		switch {
		case s.Wrong != nil:
			j.Unreadable[s.Kind] = reason(s.Wrong)
		case s.Kind == "barrier":
			j.Barrier = "set"
		case s.Kind == "latch":
			j.Latch = &s.Left
		default:
			j.Version = strconv.FormatUint(s.Version, 10)
		}
	}
	return j
}
