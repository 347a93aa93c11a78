package etcdtest

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/interlock-go/interlock/internal/testserver"
)

// prepareTLS makes the authority and both certificates.
func (s *Server) prepareTLS() error {
	ca, err := testserver.NewAuthority(s.Path("ca.pem"))
	if err != nil {
		return err
	}
	s.CA, s.ClientCert, s.ClientKey = ca.Path, s.Path("client.pem"), s.Path("client.key")
	// The server is a client of itself, too.
	if err := ca.Issue(s.Path("server.pem"), s.Path("server.key"), testserver.ForServer, testserver.ForClient); err != nil {
		return err
	}
	return ca.Issue(s.ClientCert, s.ClientKey, testserver.ForClient)
}

func (s *Server) clientTLS() (*tls.Config, error) {
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, Certificates: []tls.Certificate{pair}}, nil
}
