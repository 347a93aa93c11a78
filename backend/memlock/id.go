package memlock

import (
	"encoding/hex"

	"github.com/interlock-go/interlock/driver"
)

// id is an ID of 32 hexadecimal digits in half the space, without a pointer.
type id [16]byte

func parseID(s string) (v id, err error) {
	if err := driver.CheckID(s); err != nil {
		return v, err
	}
	_, err = hex.Decode(v[:], []byte(s))
	return v, err
}
