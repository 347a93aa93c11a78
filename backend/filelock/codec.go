//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
)

// codec writes the fields of a row one after the other, or reads them in the same order.
type codec struct {
	out   []byte
	in    string
	reads bool
	err   error
}

func (c *codec) short() { c.in, c.err = "", errDamaged }

func numberOf[T ~int | ~int64 | ~uint8 | ~uint64](c *codec, v *T) {
	if !c.reads {
		c.out = binary.AppendUvarint(c.out, uint64(*v))
		return
	}
	var n uint64
	for i := range min(len(c.in), binary.MaxVarintLen64) {
		n |= uint64(c.in[i]&0x7f) << (7 * i)
		if c.in[i] < 0x80 {
			c.in, *v = c.in[i+1:], T(n)
			return
		}
	}
	c.short()
}

func textOf[T ~string | ~[]byte](c *codec, v *T) {
	size := len(*v)
	numberOf(c, &size)
	switch {
	case !c.reads:
		c.out = append(c.out, *v...)
	case size < 0 || size > len(c.in):
		c.short()
	default:
		*v, c.in = T(c.in[:size]), c.in[size:]
	}
}

func flagOf(c *codec, v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	numberOf(c, &n)
	*v = n == 1
}

func timeOf(c *codec, v *time.Time) {
	n := int64(0)
	if !v.IsZero() {
		n = v.UnixNano()
	}
	numberOf(c, &n)
	*v = time.Unix(0, n)
}

func listOf[T any](c *codec, all *[]T, each func(*codec, *T)) {
	size := len(*all)
	numberOf(c, &size)
	if size < 0 || size > maxList {
		if c.short(); !c.reads {
			c.err = errTooLong
		}
	}
	if c.reads {
		*all = nil
	}
	for i := 0; i < size && c.err == nil; i++ {
		if c.reads {
			*all = append(*all, *new(T))
		}
		each(c, &(*all)[i])
	}
}

// mapOf is listOf for a map.
func mapOf[V any](c *codec, all *map[string]V, each func(c *codec, key *string, of *V)) {
	type entry struct {
		key string
		of  V
	}
	var list []entry
	for key, of := range *all {
		list = append(list, entry{key, of})
	}
	listOf(c, &list, func(c *codec, e *entry) { each(c, &e.key, &e.of) })
	if c.reads && len(list) > 0 {
		*all = make(map[string]V, len(list))
	}
	for _, e := range list {
		(*all)[e.key] = e.of
	}
}

// maxList is how many entries a list has at most. It grows as they are read: whoever shares the directory
// can write any number in front of it.
const maxList = 100_000

var errTooLong = errors.New("the row is too long: too many wait, or follow")

// sessionOf is for IDs of sessions, by which files are named.
func sessionOf(c *codec, v *string) {
	if textOf(c, v); c.reads && !exchange.IsID(*v) {
		c.short()
	}
}

// mailboxOf is for mailboxes, by which sockets are named. A session may have none.
func mailboxOf(c *codec, v *string) {
	if textOf(c, v); c.reads && *v != "" && !exchange.IsMailbox(*v) {
		c.short()
	}
}
