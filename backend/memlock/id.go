package memlock

import (
	"github.com/interlock-go/interlock/driver"
)

// id is an ID of 32 hexadecimal digits in half the space, without a pointer.
type id [16]byte

func parseID(s string) (id, error) {
	var v id
	if len(s) != 2*len(v) {
		return v, driver.CheckID(s)
	}
	for i := range v {
		hi, lo := digit(s[2*i]), digit(s[2*i+1])
		if hi|lo > 15 {
			return v, driver.CheckID(s)
		}
		v[i] = hi<<4 | lo
	}
	return v, nil
}

func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xFF
}
