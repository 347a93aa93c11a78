// Package tlsoption reads the options of URLs that are about TLS, which are the same for
// all backends.
package tlsoption

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// Names are the options: names and paths, which everybody may see.
var Names = []string{"server_name", "ca", "cert", "key"}

// Config reads them.
func Config(u *driver.URL) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Text("server_name", "")}
	ca, cert, key := u.Text("ca", ""), u.Text("cert", ""), u.Text("key", "")
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: no certificate in %s", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key belong together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Hint says which option helps against a certificate that was refused, by the client or by the server; "" of another
// error. It goes by the text, since some libraries hand on nothing else.
func Hint(err error) string {
	has := func(text string) bool { return err != nil && strings.Contains(err.Error(), text) }
	switch {
	case has("certificate signed by unknown authority"):
		return "name the file of its authority: ?ca=…"
	case has("certificate is valid for "), has("x509: cannot validate certificate for "):
		return "name a host that the certificate has, or write it as ?server_name=…"
	case has("remote error: tls: bad certificate"), has("remote error: tls: certificate required"), has("remote error: tls: unknown certificate authority"):
		return "the server wants a certificate that it trusts: ?cert=…&key=…"
	}
	return ""
}

// Any reports whether one of them is given.
func Any(u *driver.URL) bool {
	any := false
	for _, name := range Names {
		any = u.Text(name, "") != "" || any
	}
	return any
}
