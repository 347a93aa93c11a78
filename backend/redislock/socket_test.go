package redislock_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: a Unix socket takes the place of the host, with its slashes escaped.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := redistest.SocketPath(t)
	redistest.Start(t, redistest.Config("unixsocket", path), redistest.Users("default on >s3cret ~* &* +@all"))
	host := url.PathEscape(path)
	errtest.Is(t, openOnce(t, "redis://:s3cret@"+host+"/3"), nil)
	says(t, openOnce(t, "redis://:s3cret2@"+host), path, "WRONGPASS")
	says(t, openOnce(t, "redis://"+host+"x"), path+"x", "no such file")
	for url, words := range map[string]string{
		"redis://" + path:            "redis://%2Frun%2Fredis.sock",
		"redis://" + host + ",other": "no other host",
		"rediss://" + host:           "without TLS",
	} {
		err := openOnce(t, url)
		says(t, err, words)
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: not ErrInvalid: %v", url, err)
		}
	}
}
