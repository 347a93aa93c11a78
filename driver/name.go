package driver

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName    = 512
	maxSegment = 200
	cellMore   = 16 // room for what keeps the names of several primitives apart
)

// CheckName reports why the name of a queue is refused (ErrInvalid), the same
// on every backend. A name is UTF-8, 1 to 512 bytes, in segments of at most 200
// bytes joined by "/", none of them empty, "." or "..". It has no braces (they
// choose the slot of a Redis key), and no control, surrogate, private-use or
// non-character code points (ZooKeeper refuses these).
func CheckName(name string) error { return Invalid(checkName(name, 0)) }

// CheckCell is CheckName for the name of a cell, which, like each of its
// segments, may have 16 bytes more.
func CheckCell(name string) error { return Invalid(checkName(name, cellMore)) }

func checkName(name string, more int) error {
	if name == "" {
		return errors.New("name is empty")
	}
	if len(name) > maxName+more {
		return fmt.Errorf("name has %d bytes, at most %d are allowed", len(name), maxName+more)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("name %q is not UTF-8", name)
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return fmt.Errorf("name %q has an empty segment", name)
		case segment == "." || segment == "..":
			return fmt.Errorf("name %q has the segment %q", name, segment)
		case len(segment) > maxSegment+more:
			return fmt.Errorf("name has a segment of %d bytes, at most %d are allowed", len(segment), maxSegment+more)
		}
	}
	for _, r := range name {
		if r >= ' ' && r < 0x7f && r != '{' && r != '}' {
			continue // soon: names of all calls are checked, and most have no more than this
		}
		if r == '{' || r == '}' || unicode.Is(unicode.C, r) && !unicode.Is(unicode.Cf, r) || noncharacter(r) {
			return fmt.Errorf("name %q has the character %U, which is not allowed", name, r)
		}
	}
	return nil
}

// noncharacter reports the code points that Unicode reserves for internal use.
func noncharacter(r rune) bool {
	return r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE || r >= 0xFFF0 && r <= 0xFFFF
}
