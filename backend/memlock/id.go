package memlock

import "encoding/hex"

// id is an ID of 32 hexadecimal digits in half the space, without a pointer.
type id [16]byte

func parseID(s string) (v id) {
	_, _ = hex.Decode(v[:], []byte(s)) // it was checked
	return v
}
