package zklock

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// reserved is where everything is that is not a queue.
const reserved = "_interlock"

// escape makes a segment of a name the name of a node. What ZooKeeper refuses,
// and what would be mistaken for something else, is written as %XX.
func escape(segment string, first bool) string {
	var node string
	if strings.HasPrefix(segment, "_c_") || first && (segment == "zookeeper" || segment == reserved) {
		node = fmt.Sprintf("%%%02X", segment[0]) + escapeRest(segment[1:])
	} else {
		node = escapeRest(segment)
	}
	if _, ticket := parse(node); ticket { // it ends with a digit
		last := len(node) - 1
		node = node[:last] + fmt.Sprintf("%%%02X", node[last])
	}
	return node
}

func escapeRest(s string) string {
	plain := true
	for i, r := range s {
		if refused(r) || r == '%' && hex2(s[i+1:]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		n := utf8.RuneLen(r)
		if refused(r) || r == '%' && hex2(s[i+1:]) {
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteString(s[i : i+n])
	}
	return b.String()
}

// refused reports what ZooKeeper does not allow: its check is of UTF-16, so that it
// refuses all characters that take two units there.
func refused(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

func hex2(s string) bool {
	return len(s) >= 2 && isHex(s[0]) && isHex(s[1])
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' }

// unescape returns the segment of a name.
func unescape(node string) string {
	if !strings.Contains(node, "%") {
		return node
	}
	var b []byte
	for i := 0; i < len(node); i++ {
		if node[i] == '%' && hex2(node[i+1:]) {
			var c byte
			_, _ = fmt.Sscanf(node[i+1:i+3], "%02X", &c)
			b = append(b, c)
			i += 2
			continue
		}
		b = append(b, node[i])
	}
	return string(b)
}

// node returns the path of a queue behind root.
func (c *config) node(queue string) string {
	var b strings.Builder
	b.WriteString(c.root)
	for i, segment := range strings.Split(queue, "/") {
		b.WriteByte('/')
		b.WriteString(escape(segment, i == 0))
	}
	return b.String()
}

// flat makes a whole name one segment.
func flat(name string) string {
	return strings.ReplaceAll(escapeRest(strings.ReplaceAll(name, "%", "%25")), "/", "%2F")
}

// unflat returns the name that flat made one segment.
func unflat(node string) string { return strings.ReplaceAll(unescape(node), "%25", "%") }

func parent(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return ""
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
