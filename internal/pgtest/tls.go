package pgtest

import (
	"fmt"

	"github.com/interlock-go/interlock/internal/testserver"
)

// TLS has everybody connect by TCP with TLS only. A client may show the
// certificate of Server.ClientCert.
func TLS() Option { return func(s *settings) { s.tls = true } }

// prepareTLS makes the authority and both certificates, and returns the lines of
// the configuration that name them.
func (s *Server) prepareTLS() (string, error) {
	ca, err := testserver.NewAuthority(s.Path("ca.crt"))
	if err != nil {
		return "", err
	}
	s.CA, s.ClientCert, s.ClientKey = ca.Path, s.Path("client.crt"), s.Path("client.key")
	cert, key := s.Path("server.crt"), s.Path("server.key")
	if err := ca.Issue(cert, key, testserver.ForServer); err != nil {
		return "", err
	}
	if err := ca.Issue(s.ClientCert, s.ClientKey, testserver.ForClient); err != nil {
		return "", err
	}
	for _, path := range []string{s.CA, cert, key} {
		if err := s.user.own(path); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("ssl = on\nssl_ca_file = %s\nssl_cert_file = %s\nssl_key_file = %s\n", literal(s.CA), literal(cert), literal(key)), nil
}
