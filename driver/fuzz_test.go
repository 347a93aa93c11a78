package driver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: whatever a URL is, a password is neither in what is shown of it nor in the error, and
// what is shown leads to the same place.
func FuzzParseURL(f *testing.F) {
	for _, s := range [][2]string{
		{"known://app:", "@h/0"}, {"known://app:a/", "@h/0"}, {"known://app:a?", "@h/0"}, {"known://app:p@", "@h1:1,[::1]:2,h3/db"}, {"known:app:", "@127.0.0.1"},
		{"known://h/db?password=", "&timeout=1s"}, {"known://me@h?direct=known://app:", "@h:2/db"}, {"known://", ""}, {"", ""}, {":", "@h"}, {"known:///home/a@b/", "/c"},
		{"known://app:%", "@h"}, {"known://a%3A", "@h"}, {"known://%40", ":x@%2Frun%2Fa.sock/db"}, {"known:file?owner=", "%"}, {"known://h?", "&;"}, {"known:%2F%2Fh", "?#"},
		{"known:a%3A//", ""}, {"known://h:/%2F", ""}, {"jdbc:known://app:", ""}, {"unknown:app:", ""},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, secret) {
			return
		}
		whole := before + secret + after
		u, err := driver.ParseURL(whole)
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", whole, err)
			}
			return
		}
		shown := u.String()
		if u.User != nil {
			if password, _ := u.User.Password(); strings.Contains(password, secret) && (strings.Contains(shown, secret) || !u.Secret()) {
				t.Errorf("%q is shown as %q", whole, shown)
			}
		}
		if u.Scheme != "known" {
			mistyped := len(u.Scheme) >= len("know") && len(u.Scheme) <= len("unknown")-1
			if strings.Contains(u.Path, secret) && !mistyped && (shown != u.Scheme+":xxxxx" || !u.Secret()) {
				t.Errorf("%q is shown as %q", whole, shown)
			}
			return
		}
		again, err := driver.ParseURL(shown)
		if err != nil {
			t.Fatalf("%q is shown as %q: %v", whole, shown, err)
		}
		hidden := again.Path == "xxxxx" && strings.Contains(u.Path, ":") && !strings.HasPrefix(u.Path, "/") // it may be user:password
		if again.Scheme != u.Scheme || again.Path != u.Path && !hidden || !slices.Equal(again.Hosts, u.Hosts) || user(again) != user(u) || again.String() != shown {
			t.Errorf("%q is shown as %q, which leads to %+v and is shown as %q", whole, shown, again, again)
		}
		if err := u.Check(); err != nil && strings.Contains(err.Error(), secret) && !strings.Contains(strings.ToLower(err.Error()), "unknown option") {
			t.Errorf("%q: %v", whole, err)
		}
	})
}

// user is the name, and whether there is a password.
func user(u *driver.URL) string {
	if u.User == nil {
		return ""
	}
	_, has := u.User.Password()
	if has {
		return u.User.Username() + " and a password"
	}
	return u.User.Username() + " alone"
}
