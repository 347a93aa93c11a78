package driver_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

func init() {
	driver.Register("known", nil, "timeout", "mode", "names", "table")
}

const secret = "S3cr3tPw"

// Promise: a URL of which a part may be a password, in the wrong place, is refused, and nothing
// of it is repeated.
func TestAMisplacedPasswordIsRefused(t *testing.T) {
	for _, s := range []string{
		"known://app:a/" + secret + "@h/0",
		"known://app:a?" + secret + "@h/0",
		"known://app:" + secret + "?x@h",
		"known://app:" + secret + "?x=1@h",
		"known://app:" + secret + "/x@h/db",
		"known://app:" + secret + "/x?y@h/db",
		"known://app:123?" + secret + "=x@h/db",
		"known://app:p@" + secret + "/x@h/db",
		"known://app:p@" + secret + "?x@h/db",
		"known://app:p@" + secret + "?x/y@h/db",
		"known:app:" + secret + "@127.0.0.1",
		"known:/app:" + secret + "@127.0.0.1",
		"known:///app:" + secret + "@127.0.0.1/db",
		"known:app:" + secret + "?owner=x@127.0.0.1",
		"known:" + secret + "@127.0.0.1",
		"app:" + secret + "@127.0.0.1:6379",
		":" + secret + "@127.0.0.1:6379",
		secret + "@127.0.0.1:6379",
		"known://app:" + secret,
		"known://app:" + secret + "/db",
		"known://app:S3c:" + secret,
		"known://h1,app:" + secret + ",h2/db",
		"known://app:" + secret + ",,h/db",
		"known://app:" + secret + "%@h",
		"known://app:x%zz" + secret + "/@h",
		"known://h/%zz" + secret,
		"known://h/db?password=%zz" + secret,
		"known://h/db?password=a;" + secret,
		"known:known://app:" + secret,
		"known:known://app:" + secret + "/db",
		"known://known://app:" + secret,
		"known:/known://app:" + secret,
		"jdbc:known://app:" + secret,
		"known:host=127.0.0.1 password=" + secret,
		"known://127.0.0.1:1,password=" + secret,
		"known://127.0.0.1,password=" + secret + "/db",
		"known://app:x@h,password=" + secret,
		"known://h/db password=" + secret,
		"known://h/db;user=u;password=" + secret,
		"known:server=h;password=" + secret,
		"known://h/x,password=" + secret,
		"known:-a " + secret + " -h h",
		"sqlite:Data Source=locks.db;Password=" + secret,
		"file:///locks,pwd=" + secret,
	} {
		u, err := driver.ParseURL(s)
		if err == nil {
			t.Errorf("%s is read as %s", s, u)
		} else if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "app") {
			t.Errorf("%s: %v", s, err)
		}
	}
	if _, err := driver.ParseURL("known://app:a/b@h"); !strings.Contains(err.Error(), "%2F") || !strings.Contains(err.Error(), "%3F") {
		t.Errorf("no advice: %v", err)
	}
}

// What looks like an option of another library stands in the name of a file, and where it is escaped.
func TestAPathWithEqualSigns(t *testing.T) {
	for s, path := range map[string]string{"sqlite:my locks=1;2.db": "my locks=1;2.db", "file:///a b": "/a b", "known://h/a%20b%3Dc%3B": "/a b=c;"} {
		if u, err := driver.ParseURL(s); err != nil || u.Path != path {
			t.Errorf("%s: %v, %v", s, u, err)
		}
	}
}

// Promise: an @ that is in its place stands, and the URL that is shown leads to the same place.
func TestAnAtInItsPlace(t *testing.T) {
	for s, shown := range map[string]string{
		"known://app:" + secret + "@h1:1,[::1]:2,h3/db":                    "known://app:xxxxx@h1:1,[::1]:2,h3/db",
		"known://app:a%2Fb%3Fc%40" + secret + "@h/db":                      "known://app:xxxxx@h/db",
		"known://app:p@" + secret + "@h/db":                                "known://app:xxxxx@h/db",
		"known://me@h?direct=known://app:" + secret + "@h:2/db":            "known://me@h?direct=xxxxx",
		"known://me@h?owner=a@b&timeout=1s":                                "known://me@h?owner=a%40b&timeout=1s",
		"known:file.db?owner=a@b":                                          "known:file.db?owner=a%40b",
		"known:///home/a@b/file.db":                                        "known:///home/a%40b/file.db",
		"known:///home/a%40b/c:d%40e/file.db":                              "known:///home/a%40b/c:d%40e/file.db",
		"known://%2Frun%2Fa.sock:7/db":                                     "known://%2Frun%2Fa.sock:7/db",
		"known://::1/db":                                                   "known://::1/db",
		"known://h/db?password=" + secret + "&ttl=2s&" + secret:            "known://h/db?password=xxxxx&ttl=2s&xxxxx=xxxxx",
		"known://h/db?PassWord=" + secret + "&token=" + secret:             "known://h/db?PassWord=xxxxx&token=xxxxx",
		"known://h/db?direct=host%3Dx+password%3D" + secret + "+port%3Dzz": "known://h/db?direct=xxxxx",
	} {
		u, err := driver.ParseURL(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if u.String() != shown {
			t.Errorf("%s is shown as %s, not %s", s, u, shown)
		}
		if secrets := strings.Contains(shown, "xxxxx"); u.Secret() != secrets {
			t.Errorf("%s has secrets: %v", s, !secrets)
		}
		again, err := driver.ParseURL(u.String())
		if err != nil || again.Path != u.Path || strings.Join(again.Hosts, ",") != strings.Join(u.Hosts, ",") {
			t.Errorf("%s is shown as %s, which is another: %v", s, u, err)
		}
	}
}

// Promise: a mistyped scheme or option is named, with the one that is meant, and is no reason to hide anything.
func TestWhatIsMistypedIsShown(t *testing.T) {
	for s, says := range map[string]string{
		"knwon://localhost/db":           `unknown scheme "knwon": did you mean known?`,
		"knownn://h1:1,h2?timeout=1s":    `unknown scheme "knownn": did you mean known?`,
		"mongodb://x":                    `unknown scheme "mongodb"; this program has`,
		"localhost:6379":                 "localhost:6379 has no scheme",
		"known://h/db?tll=3s&timeout=2s": "unknown option tll (did you mean ttl?)",
	} {
		u := errtest.Must(driver.ParseURL(s))(t)
		if u.String() != s && s != "known://h/db?tll=3s&timeout=2s" || strings.Contains(u.String(), "xxxxx") || u.Secret() {
			t.Errorf("%s is shown as %s; secret: %v", s, u, u.Secret())
		}
		_ = u.Duration("ttl", 0) + u.Duration("timeout", 0)
		err := u.Check()
		if u.Scheme != "known" {
			_, err = driver.OpenURL(t.Context(), u)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", s, err)
		}
	}
	u, err := driver.ParseURL("knwon://me:" + secret + "@h/db?token=" + secret)
	if err != nil || u.String() != "knwon://me:xxxxx@h/db?token=xxxxx" || !u.Secret() {
		t.Errorf("shown as %s: %v", u, err)
	}
}

// Promise: of a URL whose scheme nobody has registered, nothing but that is shown.
func TestOfAnUnknownSchemeNothingElseIsShown(t *testing.T) {
	for _, s := range []string{"unknown:app:" + secret, "unknown:/app:" + secret, "unknown://app/" + secret, "unknown://" + secret + "@h", "unknown://h/db?timeout=" + secret} {
		u := errtest.Must(driver.ParseURL(s))(t)
		_, err := driver.OpenURL(t.Context(), u)
		if shown := u.String(); shown != "unknown:xxxxx" || !u.Secret() || err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s is shown as %s: %v", s, shown, err)
		}
	}
}

// Promise: what stands behind a scheme without its "//" may be user and password, and is not shown;
// a file, also one on a drive, is.
func TestAPasswordWithoutSlashesIsNotShown(t *testing.T) {
	for s, shown := range map[string]string{
		"known:app:" + secret:           "known:xxxxx",
		"known:a:" + secret + "?ttl=2s": "known:xxxxx?ttl=2s",
		"known:a:/" + secret + ":x":     "known:xxxxx",
		`known:C:\locks.db`:             "known:C:%5Clocks.db",
		"known:c:/a/locks.db":           "known:c:/a/locks.db",
		"known:///a:b/locks.db":         "known:///a:b/locks.db",
		"known:locks.db":                "known:locks.db",
	} {
		u, err := driver.ParseURL(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if u.String() != shown || u.Secret() != strings.Contains(shown, "xxxxx") {
			t.Errorf("%s is shown as %s, not %s; secret: %v", s, u, shown, u.Secret())
		}
	}
}

// Promise: the value of an option that is wrong, or that nobody knows, is neither in the error
// nor shown.
func TestTheValueOfAWrongOptionIsHidden(t *testing.T) {
	for _, options := range []string{
		"timeout=" + secret, "mode=" + secret, "names=" + secret, "table=a&table=" + secret, "pass=" + secret, secret, secret + "=",
		"a/" + secret + "=1", strings.Repeat("a", 50) + secret + "=1",
	} {
		u := errtest.Must(driver.ParseURL("known://app@h/db?" + options))(t)
		u.Duration("timeout", time.Second)
		u.Int("mode", 8, 0)
		u.Choice("names", "", "a", "b")
		u.Text("table", "")
		err := u.Check()
		if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), secret) || strings.Contains(u.String(), secret) {
			t.Errorf("%s: %v, shown as %s", options, err, u)
		}
	}
	u := errtest.Must(driver.ParseURL("known://h/db?table=t"))(t)
	u.Hide("table")
	if !strings.Contains(u.String(), "table=xxxxx") {
		t.Error(u)
	}
}

// Promise: options that make no sense, behind which there is an @, are taken for the end of a
// password: nothing of the URL is shown any more.
func TestOptionsThatAreTheEndOfAPassword(t *testing.T) {
	for _, s := range []string{"known://app:p@" + secret + "?e=f/gh@host/db", "known://app:p@" + secret + "?timeout=f/gh@host/db"} {
		u := errtest.Must(driver.ParseURL(s))(t)
		u.Duration("timeout", time.Second)
		err := u.Check()
		if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error()+u.String(), secret) || strings.Contains(err.Error()+u.String(), "gh") {
			t.Errorf("%s: %v, shown as %s", s, err, u)
		}
	}
}

// Promise: the members of a quorum are shown, but not their passwords.
func TestPasswordsOfMembersAreHidden(t *testing.T) {
	driver.Register("quorum", nil)
	driver.Register("inner", nil, "db")
	u, err := driver.ParseURL("quorum:?member=" + url.QueryEscape("inner://user:secret@a/x?db=1&key=secret") + "&member=" + url.QueryEscape("unknown://h/secret") + "&ttl=5s")
	if err != nil {
		t.Fatal(err)
	}
	got := u.String()
	if strings.Contains(got, "secret") || !strings.Contains(got, url.QueryEscape("inner://user:xxxxx@a/x?db=1&key=xxxxx")) || !strings.Contains(got, "ttl=5s") {
		t.Errorf("shown as %s", got)
	}
	if !u.Secret() {
		t.Error("it is said to have no secret")
	}
	plain := errtest.Must(driver.ParseURL("quorum:?member=" + url.QueryEscape("inner://a?db=1")))(t)
	if plain.Secret() {
		t.Error("it is said to have a secret")
	}
	if got := u.Texts("member"); len(got) != 2 {
		t.Errorf("the option was given twice, and is %q", got)
	}
}
