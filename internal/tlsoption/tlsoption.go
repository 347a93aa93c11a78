// Package tlsoption reads the options of URLs that are about TLS, which are the same for
// all backends.
package tlsoption

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

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

// Any reports whether one of them is given.
func Any(u *driver.URL) bool {
	any := false
	for _, name := range Names {
		any = u.Text(name, "") != "" || any
	}
	return any
}
