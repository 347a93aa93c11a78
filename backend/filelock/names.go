//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

var escaper = strings.NewReplacer("/", "%2F", "%", "%25")

// long begins the name of a file whose own name would be too long. No other name begins so.
const long = "%long-"

// escape returns the name of the file of a lock: the lock's own name if it has no slash. A file
// that begins with a dot is none of a lock.
func escape(name string) string {
	file := escaper.Replace(name)
	if strings.HasPrefix(file, ".") {
		file = "%2E" + file[1:]
	}
	if len(file) <= 200 {
		return file
	}
	sum := sha256.Sum256([]byte(name))
	return long + hex.EncodeToString(sum[:])
}

// unescape is the opposite of escape. It reports false for a file that is none of a lock, and for
// one with a long name, which only its row tells.
func unescape(file string) (name string, ok bool) {
	name, err := url.PathUnescape(file)
	return name, err == nil && escape(name) == file
}
