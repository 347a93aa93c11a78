package interlock

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/interlock-go/interlock/driver"
)

// Value is a small shared value that is changed without a lock: a change names
// the version that it replaces, and fails if somebody else was faster. A
// version never comes back, not even after Delete. It is stored as JSON, or as
// it is if T is []byte, in at most 64 KiB.
//
// While the backend cannot be reached, its methods wait for it, and try again, until ctx
// ends; the error then also says what was wrong last. Only a change is given up after half
// a minute without an answer: whether it was made is not known then. A context without an
// end waits for ever.
type Value[T any] struct{ cell cell }

// NewValue makes a value. (It is a function because methods cannot have type
// parameters.)
func NewValue[T any](c *Client, name string) *Value[T] { return &Value[T]{c.cell("value", name)} }

const maxUpdates = 100

// Snapshot is what a value is at some time.
type Snapshot[T any] struct {
	Value   T      // the zero T if it does not exist
	Version uint64 // 0 if it never existed; that of the deletion if it was deleted
	Exists  bool
}

// Get returns what the value is now.
func (v *Value[T]) Get(ctx context.Context) (Snapshot[T], error) {
	got, err := v.cell.load(ctx)
	if err != nil {
		return Snapshot[T]{}, v.cell.fail("get", err)
	}
	s, err := snapshot[T](got)
	return s, v.cell.fail("get", err)
}

// Set replaces the given version and returns the new one. ErrConflict: the
// value has another version by now. Version 0 creates a value that does not exist, because it
// never did or was deleted; ErrConflict: it does.
func (v *Value[T]) Set(ctx context.Context, val T, version uint64) (uint64, error) {
	data, err := encode(val)
	if err != nil {
		return 0, v.cell.fail("set", err)
	}
	got, err := v.cell.swap(ctx, driver.Swap{Version: version, Value: data})
	if version == 0 && isConflict(err) { // it may have been deleted
		var created bool
		if got, created, err = v.cell.create(ctx, data); err == nil && !created {
			err = ErrConflict
		}
	}
	if err != nil {
		return 0, v.cell.fail("set", err)
	}
	return got.Version, nil
}

// Update sets the value to what f makes of it, and returns that. f is called
// again whenever somebody else was faster, after a pause with jitter, at most
// a hundred times: ErrConflict. An error of f ends it.
func (v *Value[T]) Update(ctx context.Context, f func(T) (T, error)) (T, error) {
	var result T
	tries := 0
	_, err := v.cell.change(ctx, func(got driver.Cell) (driver.Swap, error) {
		if tries++; tries > maxUpdates {
			return driver.Swap{}, fmt.Errorf("%w by others %d times in a row", ErrConflict, maxUpdates)
		}
		old, err := decode[T](got)
		if err != nil {
			return driver.Swap{}, err
		}
		if result, err = f(old); err != nil {
			return driver.Swap{}, err
		}
		data, err := encode(result)
		return driver.Swap{Value: data}, err
	})
	return result, v.cell.fail("update", err)
}

// Watch yields what the value is, and again after every change; states that follow
// each other fast may be skipped, never the last. It ends with ctx, without an error, or
// after an error.
func (v *Value[T]) Watch(ctx context.Context) iter.Seq2[Snapshot[T], error] {
	return func(yield func(Snapshot[T], error) bool) {
		got, err := v.cell.load(ctx)
		for {
			var s Snapshot[T]
			if err == nil {
				s, err = snapshot[T](got)
			}
			if err != nil {
				if ctx.Err() == nil {
					yield(s, v.cell.fail("watch", err))
				}
				return
			}
			if !yield(s, nil) {
				return
			}
			got, err = v.cell.watch(ctx, got.Version)
		}
	}
}

// Delete removes the value if it still has the version.
func (v *Value[T]) Delete(ctx context.Context, version uint64) error {
	_, err := v.cell.swap(ctx, driver.Swap{Version: version, Delete: true})
	return v.cell.fail("delete", err)
}

func encode[T any](val T) ([]byte, error) {
	if b, ok := any(val).([]byte); ok {
		return b, nil
	}
	return json.Marshal(val)
}

func snapshot[T any](c driver.Cell) (Snapshot[T], error) {
	val, err := decode[T](c)
	return Snapshot[T]{val, c.Version, c.Exists}, err
}

func decode[T any](c driver.Cell) (val T, err error) {
	if !c.Exists {
		return val, nil
	}
	if b, ok := any(&val).(*[]byte); ok {
		*b = c.Value
		return val, nil
	}
	if err := json.Unmarshal(c.Value, &val); err != nil {
		return val, fmt.Errorf("the stored value is not of this type: %w", err)
	}
	return val, nil
}
