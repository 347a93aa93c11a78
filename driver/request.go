package driver

import (
	"errors"
	"fmt"
)

// CheckRequest reports why a request could never be granted (ErrInvalid), but for
// its ID and the name of its queue, which are checked by themselves.
func CheckRequest(r *Request) error {
	switch {
	case r.Kind == "":
		return Invalid(errors.New("the request has no kind"))
	case r.Units < 1 || r.Units > r.Capacity:
		return Invalid(fmt.Errorf("%d units of a capacity of %d can never be granted", r.Units, r.Capacity))
	case r.Capacity > MaxCapacity:
		return Invalid(fmt.Errorf("the capacity of %d is larger than %d", r.Capacity, int64(MaxCapacity)))
	case r.Hold < 0:
		return Invalid(fmt.Errorf("hold of %v is negative", r.Hold))
	}
	return nil
}
