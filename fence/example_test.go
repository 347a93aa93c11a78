package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/fence"
)

// A server in front of a device gets a token with each request.
func ExampleMemory() {
	var devices fence.Memory
	write := func(token fence.Token, text string) error {
		return devices.Do(context.Background(), "printer", token, func() error {
			fmt.Println("written:", text)
			return nil
		})
	}
	_ = write(33, "by the first holder")
	_ = write(34, "by the next holder")
	err := write(33, "by the first holder, late")
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	// Output:
	// written: by the first holder
	// written: by the next holder
	// true fence printer: stale token: 33, but 34 has been seen
}
