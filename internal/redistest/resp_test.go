package redistest

import "testing"

// Promise: values are found however the stream is cut into pieces; what is no RESP is found at once.
func TestParse(t *testing.T) {
	for _, value := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(123\r\n",
		"$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n", "=5\r\ntxt:x\r\n", "!3\r\nERR\r\n",
		"*0\r\n", "%0\r\n", "*2\r\n*1\r\n:1\r\n$1\r\n*\r\n", "~1\r\n+x\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "|1\r\n+ttl\r\n:1\r\n*1\r\n:2\r\n",
		">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n\r\n\r\n",
	} {
		for i := range len(value) {
			if _, n := parse([]byte(value[:i])); n != 0 {
				t.Errorf("%q: got the length %d", value[:i], n)
			}
		}
		if _, n := parse([]byte(value + "+OK\r\n")); n != len(value) {
			t.Errorf("%q: got the length %d, want %d", value, n, len(value))
		}
	}
	for _, other := range []string{"\x16\x03\x01", "PING\r\n", "$EOF:1234\r\nx", "*x\r\n"} {
		if _, n := parse([]byte(other)); n != -1 {
			t.Errorf("%q: got the length %d", other, n)
		}
	}
}
