// Package tlstest tries the options of package tlsoption on a server.
package tlstest

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Server has a certificate of its own authority for localhost, and wants one of clients.
type Server struct{ Addr, CA, Cert, Key string }

// Files are the options with which a client and the server trust each other, and more.
func (s Server) Files(more ...string) []string {
	return append([]string{"ca", s.CA, "cert", s.Cert, "key", s.Key}, more...)
}

// URL has options: a name and a value, and so on.
func URL(scheme, addr string, options ...string) string {
	q := url.Values{}
	for i := 0; i < len(options); i += 2 {
		q.Set(options[i], options[i+1])
	}
	return scheme + "://" + addr + "?" + q.Encode()
}

// Case is a URL, and what comes of it.
type Case struct {
	Name, URL string
	Invalid   bool     // the URL is
	Says      []string // the error; nothing: it works
}

// Cases are those that all backends have in common. Secure is the scheme with TLS, plain the one without.
func Cases(t testing.TB, secure, plain string, s, other Server) []Case {
	t.Helper()
	broken := filepath.Join(t.TempDir(), "broken.crt")
	if err := os.WriteFile(broken, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(options ...string) string { return URL(secure, s.Addr, options...) }
	return []Case{
		{"good", at(s.Files()...), false, nil},
		{"a name of the certificate", at(s.Files("server_name", "localhost")...), false, nil},
		{"another name", at(s.Files("server_name", "example.org")...), false, []string{s.Addr, "certificate is valid for localhost, not example.org"}},
		{"no authority", at("cert", s.Cert, "key", s.Key), false, []string{s.Addr, "unknown authority"}},
		{"another authority", at("ca", other.CA, "cert", s.Cert, "key", s.Key), false, []string{s.Addr, "unknown authority"}},
		{"a certificate of another authority", at("ca", s.CA, "cert", other.Cert, "key", other.Key), false, []string{s.Addr}},
		{"no certificate", at("ca", s.CA), false, []string{s.Addr}},

		{"a file that is not there", at("ca", "/no/such/file"), true, []string{"ca:", "/no/such/file"}},
		{"a file that is none", at("ca", broken), true, []string{"no certificate in", broken}},
		{"a certificate without its key", at("ca", s.CA, "cert", s.Cert), true, []string{"cert and key belong together"}},
		{"the key of another", at("ca", s.CA, "cert", s.Cert, "key", other.Key), true, []string{"cert:"}},
		{"options without TLS", URL(plain, s.Addr, "ca", s.CA), true, []string{"unknown option ca"}},
	}
}

// soon is how long a refusal may take.
const soon = 20 * time.Second

// Run tries them. Use opens a driver and a session, once.
func Run(t *testing.T, cases []Case, use func(t *testing.T, url string) error) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			began := time.Now()
			err := use(t, c.URL)
			if c.Says == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			errtest.Says(t, err, c.Says...)
			if errors.Is(err, driver.ErrInvalid) != c.Invalid {
				t.Errorf("invalid: %v: %v", !c.Invalid, err)
			}
			if took := time.Since(began); took > soon {
				t.Errorf("it took %v: %v", took, err)
			}
		})
	}
}
