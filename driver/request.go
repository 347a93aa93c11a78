package driver

import (
	"errors"
	"fmt"
)

// MaxNote and MaxOwner bound [Request].Note and [SessionOptions].Owner, in bytes. The caller sees
// to that: drivers need not. What they list may be longer, if something else has written it.
const (
	MaxNote  = 4 << 10
	MaxOwner = 512
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

// CheckID reports why an ID is refused (ErrInvalid), the same on every backend: it is 32
// hexadecimal digits, in lower case.
func CheckID(id string) error {
	ok := len(id) == 32
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			ok = false
		}
	}
	if !ok {
		return Invalid(fmt.Errorf("the ID %q is not 32 hexadecimal digits, in lower case", id))
	}
	return nil
}
