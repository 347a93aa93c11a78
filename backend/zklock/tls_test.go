package zklock_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.TLS())
	other := zktest.Start(t, zktest.TLS())
	plain := zktest.Start(t)
	broken := filepath.Join(t.TempDir(), "broken.crt")
	if err := os.WriteFile(broken, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(scheme, addr string, options ...string) string {
		q := url.Values{}
		for i := 0; i < len(options); i += 2 {
			q.Set(options[i], options[i+1])
		}
		return scheme + "://" + addr + "?" + q.Encode()
	}
	good := []string{"ca", s.CA, "cert", s.ClientCert, "key", s.ClientKey}
	with := func(more ...string) []string { return append(good[:len(good):len(good)], more...) }
	for _, c := range []struct {
		name    string
		url     string
		invalid bool
		says    []string // nothing: it works
	}{
		{"good", at("zks", s.Addr, good...), false, nil},
		{"a name of the certificate", at("zks", s.Addr, with("server_name", "localhost")...), false, nil},
		{"another name", at("zks", s.Addr, with("server_name", "example.org")...), false, []string{s.Addr, "certificate is valid for localhost, not example.org"}},
		{"no authority", at("zks", s.Addr, "cert", s.ClientCert, "key", s.ClientKey), false, []string{s.Addr, "unknown authority"}},
		{"another authority", at("zks", s.Addr, "ca", other.CA, "cert", s.ClientCert, "key", s.ClientKey), false, []string{s.Addr, "unknown authority"}},
		{"a certificate of another authority", at("zks", s.Addr, "ca", s.CA, "cert", other.ClientCert, "key", other.ClientKey), false, []string{s.Addr}},
		{"no certificate", at("zks", s.Addr, "ca", s.CA), false, []string{s.Addr}},
		{"no TLS", at("zk", s.Addr), false, []string{s.Addr, "TLS"}},
		{"TLS where there is none", at("zks", plain.Addr, good...), false, []string{plain.Addr, "write zk://"}},

		{"a file that is not there", at("zks", s.Addr, "ca", "/no/such/file"), true, []string{"ca:", "/no/such/file"}},
		{"a file that is none", at("zks", s.Addr, "ca", broken), true, []string{"no certificate in", broken}},
		{"a certificate without its key", at("zks", s.Addr, "ca", s.CA, "cert", s.ClientCert), true, []string{"cert and key belong together"}},
		{"the key of another", at("zks", s.Addr, "ca", s.CA, "cert", s.ClientCert, "key", other.ClientKey), true, []string{"cert:"}},
		{"options without TLS", at("zk", s.Addr, "ca", s.CA), true, []string{"unknown option ca"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.says == nil {
				if err := useOnce(t, c.url); err != nil {
					t.Error(err)
				}
				return
			}
			err := atOnce(t, func() error { return useOnce(t, c.url) }, c.says...)
			if errors.Is(err, driver.ErrInvalid) != c.invalid {
				t.Errorf("invalid: %v: %v", !c.invalid, err)
			}
		})
	}
}
