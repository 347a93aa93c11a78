package redistest

import (
	"bytes"
	"strconv"
	"strings"
)

// kinds are the first bytes of all values.
const kinds = "+-:_#,($=!*~>%|"

// frames cuts a stream of RESP2 or RESP3 into its top-level values. A stream
// of anything else passes as it comes.
type frames struct {
	raw  bool
	buf  []byte
	pos  int // up to here buf has been looked at
	left int // values that the current frame still lacks; 0 between frames
	skip int // bytes of a string that still have to come
}

// add takes what was read. What next has returned before is not valid any more.
func (f *frames) add(b []byte) { f.buf = append(f.buf, b...) }

// next returns the next whole frame, or nothing if it is not whole yet.
func (f *frames) next() []byte {
	if f.raw {
		return f.cut(len(f.buf))
	}
	if f.left == 0 {
		f.left = 1
	}
	for f.left > 0 {
		if f.skip > 0 {
			if len(f.buf)-f.pos < f.skip {
				return nil
			}
			f.pos += f.skip
			f.skip = 0
			f.left--
			continue
		}
		if f.pos == len(f.buf) {
			return nil
		}
		end := bytes.IndexByte(f.buf[f.pos:], '\n')
		known := strings.IndexByte(kinds, f.buf[f.pos]) >= 0
		if known && end < 0 {
			return nil
		}
		if !known || !f.header(bytes.TrimSuffix(f.buf[f.pos:f.pos+end], []byte("\r"))) {
			f.raw = true
			return f.cut(len(f.buf))
		}
		f.pos += end + 1
	}
	return f.cut(f.pos)
}

func (f *frames) cut(n int) []byte {
	if n == 0 {
		return nil
	}
	frame := f.buf[:n:n]
	f.buf, f.pos = f.buf[n:], 0
	return frame
}

// header counts what the first line of a value announces.
func (f *frames) header(line []byte) bool {
	kind := line[0]
	switch kind {
	case '+', '-', ':', '_', '#', ',', '(':
		f.left--
		return true
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return false
	}
	switch {
	case kind == '|': // attributes are followed by the value that they are about
		f.left += 2 * max(0, n)
	case n < 0: // null
		f.left--
	case kind == '$' || kind == '=' || kind == '!':
		f.skip = n + 2
	case kind == '%':
		f.left += 2*n - 1
	default:
		f.left += n - 1
	}
	return true
}

// words returns the strings in a flat frame, at most the first n.
func words(frame []byte, n int) []string {
	var list []string
	for len(frame) > 0 && len(list) < n {
		end := bytes.IndexByte(frame, '\n')
		if end < 0 {
			break
		}
		line := bytes.TrimSuffix(frame[:end], []byte("\r"))
		frame = frame[end+1:]
		if len(line) == 0 || line[0] != '$' {
			continue
		}
		size, err := strconv.Atoi(string(line[1:]))
		if err != nil || size < 0 || size+2 > len(frame) {
			break
		}
		list = append(list, string(frame[:size]))
		frame = frame[size+2:]
	}
	return list
}
