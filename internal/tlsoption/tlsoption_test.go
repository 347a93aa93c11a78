package tlsoption_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

// Promise: the options of TLS are what the connection is made with; one that is wrong is
// an error that names it.
func TestConfig(t *testing.T) {
	path := func(name string) string { return filepath.Join(t.TempDir(), name) }
	ca, cert, key, empty := path("ca"), path("cert"), path("key"), path("empty")
	authority := errtest.Must(testserver.NewAuthority(ca))(t)
	errtest.None(t, authority.Issue(cert, key))
	errtest.None(t, os.WriteFile(empty, nil, 0o600))
	for options, want := range map[string]string{
		"":                                   "",
		"?server_name=a.example":             "name",
		"?ca=" + ca:                          "ca",
		"?cert=" + cert + "&key=" + key:      "cert",
		"?ca=" + path("missing"):             "error ca:",
		"?ca=" + empty:                       "error ca: no certificate in " + empty,
		"?cert=" + cert:                      "error cert and key belong together",
		"?key=" + key:                        "error cert and key belong together",
		"?cert=" + cert + "&key=" + empty:    "error cert:",
		"?cert=" + path("x") + "&key=" + key: "error cert:",
	} {
		u := errtest.Must(driver.ParseURL("rediss://host" + options))(t)
		if any := tlsoption.Any(u); any != (options != "") {
			t.Errorf("%q: options: %v", options, any)
		}
		c, err := tlsoption.Config(u)
		if text, ok := strings.CutPrefix(want, "error "); ok {
			if err == nil || !strings.HasPrefix(err.Error(), text) {
				t.Errorf("%q: %v, not %s", options, err, text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", options, err)
			continue
		}
		if (c.ServerName == "a.example") != (want == "name") || (c.RootCAs != nil) != (want == "ca") || (len(c.Certificates) == 1) != (want == "cert") ||
			c.MinVersion != tls.VersionTLS12 || c.InsecureSkipVerify {
			t.Errorf("%q: %+v", options, c)
		}
		if err := u.Check(); err != nil {
			t.Errorf("%q: %v", options, err)
		}
	}
}
