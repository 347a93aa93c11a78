package redislock_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/tlsoption/tlstest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	server := func() tlstest.Server {
		s := redistest.Start(t, redistest.TLS())
		return tlstest.Server{Addr: s.Addr, CA: s.CA, Cert: s.ClientCert, Key: s.ClientKey}
	}
	s := server()
	tlstest.Run(t, append(tlstest.Cases(t, "rediss", "redis", s, server()),
		tlstest.Case{Name: "no TLS", URL: "redis://" + s.Addr, Says: []string{s.Addr, "write rediss://"}},
		tlstest.Case{Name: "no authority named", URL: "rediss://" + s.Addr, Says: []string{s.Addr, "name the file of its authority: ?ca="}},
		tlstest.Case{Name: "another name", URL: "rediss://" + s.Addr + "?server_name=elsewhere.test&ca=" + url.QueryEscape(s.CA), Says: []string{s.Addr, "?server_name="}},
	), func(t *testing.T, url string) error { return openOnce(t, patiently(url)) })
}

// patiently has a URL wait for a server of a machine that is busy.
func patiently(url string) string {
	if strings.Contains(url, "?") {
		return url + "&dial_timeout=1m"
	}
	return url + "?dial_timeout=1m"
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	const strange = `s3cret p@ss:w/ö?r#d%&+"'\`
	s := redistest.Start(t, redistest.Users("default on >s3cret ~* &* +@all"))
	for name, password := range map[string]string{"plain": "s3cret", "str@nge:user": strange} {
		errtest.Must(s.Do("ACL", "SETUSER", name, "on", ">"+password, "~*", "&*", "+@all"))(t)
	}
	at := func(user *url.Userinfo) string { return "redis://" + user.String() + "@" + s.Addr }
	for _, url := range []string{
		at(url.UserPassword("", "s3cret")), // the default user
		at(url.UserPassword("default", "s3cret")),
		at(url.UserPassword("plain", "s3cret")),
		at(url.UserPassword("str@nge:user", strange)),
	} {
		if err := openOnce(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, c := range []struct {
		url  string
		says string
	}{
		{at(url.UserPassword("", "s3cret2")), "WRONGPASS"},
		{at(url.UserPassword("plain", "s3cret2")), "WRONGPASS"},
		{at(url.UserPassword("nobody", "s3cret")), "WRONGPASS"},
		{"redis://" + s.Addr, "NOAUTH"},
	} {
		err := openOnce(t, c.url)
		says(t, err, s.Addr, c.says, "check user and password")
		if !driver.IsPermanent(err) {
			t.Errorf("not permanent: %v", err)
		}
	}
	says(t, openOnce(t, "rediss://"+s.Addr+"?dial_timeout=200ms"), "without TLS does not answer")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := openURL(ctx, "rediss://"+s.Addr+"?"+patient)
	says(t, err, "deadline")
	inTime(t, "opening with a context of 100ms", began, err)
	says(t, openOnce(t, "redis://plain:s3cret%@"+s.Addr), "%25")
	says(t, openOnce(t, "redis://plain:s3cret@"+s.Addr+"/16"), "DB index is out of range")
	says(t, openOnce(t, "redis://plain:s3cret@"+s.Addr+"/x"), "is not a number")
	says(t, openOnce(t, "redis://plain:s3cret@"+s.Addr+"?password=s3cret"), "unknown option password")
}

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
