package redislock_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
)

// openOnce opens a driver and a session at a URL.
func openOnce(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := openURL(ctx, url)
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Minute})
	if err != nil {
		return err
	}
	_, err = s.Join(ctx, mutex(newID()))
	return err
}

// says makes sure that an error came at once and has the words, and no secret.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it works")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not said: %v", w, err)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the password is shown: %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.TLS())
	other := redistest.Start(t, redistest.TLS())
	broken := filepath.Join(t.TempDir(), "broken.crt")
	if err := os.WriteFile(broken, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(scheme string, options ...string) string {
		q := url.Values{}
		q.Set("dial_timeout", "1m")
		for i := 0; i < len(options); i += 2 {
			q.Set(options[i], options[i+1])
		}
		return scheme + "://" + s.Addr + "?" + q.Encode()
	}
	good := []string{"ca", s.CA, "cert", s.ClientCert, "key", s.ClientKey}
	with := func(more ...string) []string { return append(good[:len(good):len(good)], more...) }
	for _, c := range []struct {
		name    string
		url     string
		invalid bool
		says    []string // nothing: it works
	}{
		{"good", at("rediss", good...), false, nil},
		{"a name of the certificate", at("rediss", with("server_name", "localhost")...), false, nil},
		{"another name", at("rediss", with("server_name", "example.org")...), false, []string{s.Addr, "certificate is valid for localhost, not example.org"}},
		{"no authority", at("rediss", "cert", s.ClientCert, "key", s.ClientKey), false, []string{s.Addr, "unknown authority"}},
		{"another authority", at("rediss", "ca", other.CA, "cert", s.ClientCert, "key", s.ClientKey), false, []string{s.Addr, "unknown authority"}},
		{"a certificate of another authority", at("rediss", "ca", s.CA, "cert", other.ClientCert, "key", other.ClientKey), false, []string{s.Addr}},
		{"no certificate", at("rediss", "ca", s.CA), false, []string{s.Addr}},
		{"no TLS", at("redis"), false, []string{s.Addr, "write rediss://"}},

		{"a file that is not there", at("rediss", "ca", "/no/such/file"), true, []string{"ca:", "/no/such/file"}},
		{"a file that is none", at("rediss", "ca", broken), true, []string{"no certificate in", broken}},
		{"a certificate without its key", at("rediss", "ca", s.CA, "cert", s.ClientCert), true, []string{"cert and key belong together"}},
		{"the key of another", at("rediss", "ca", s.CA, "cert", s.ClientCert, "key", other.ClientKey), true, []string{"cert:"}},
		{"options without TLS", at("redis", "ca", s.CA), true, []string{"unknown option ca"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			err := openOnce(t, c.url)
			if c.says == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			says(t, err, c.says...)
			if errors.Is(err, driver.ErrInvalid) != c.invalid {
				t.Errorf("invalid: %v: %v", !c.invalid, err)
			}
			inTime(t, "it", began, err)
		})
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	const strange = `s3cret p@ss:w/ö?r#d%&+"'\`
	s := redistest.Start(t, redistest.Users("default on >s3cret ~* &* +@all"))
	for name, password := range map[string]string{"plain": "s3cret", "str@nge:user": strange} {
		if _, err := s.Do("ACL", "SETUSER", name, "on", ">"+password, "~*", "&*", "+@all"); err != nil {
			t.Fatal(err)
		}
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
