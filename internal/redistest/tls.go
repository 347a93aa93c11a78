package redistest

import (
	"fmt"

	"github.com/interlock-go/interlock/internal/testserver"
)

// TLS makes the server listen with TLS only, and accept only clients that show
// a certificate of its own authority. Config("tls-auth-clients", "no") accepts
// all.
func TLS() Option { return func(s *settings) { s.tls = true } }

// prepareTLS makes the authority and both certificates, and returns the lines
// of the configuration that name them.
func (s *Server) prepareTLS() (string, error) {
	ca, err := s.set.ca, error(nil)
	if ca == nil {
		if ca, err = testserver.NewAuthority(s.Path("ca.crt")); err != nil {
			return "", err
		}
	}
	s.CA, s.ClientCert, s.ClientKey = ca.Path, s.Path("client.crt"), s.Path("client.key")
	serverCert, serverKey := s.Path("server.crt"), s.Path("server.key")
	// The nodes of a cluster are clients of each other.
	if err := ca.Issue(serverCert, serverKey, testserver.ForServer, testserver.ForClient); err != nil {
		return "", err
	}
	if err := ca.Issue(s.ClientCert, s.ClientKey, testserver.ForClient); err != nil {
		return "", err
	}
	if s.secure, err = ca.ClientConfig(s.ClientCert, s.ClientKey); err != nil {
		return "", err
	}
	return fmt.Sprintf("port 0\ntls-port %d\ntls-replication yes\ntls-cluster yes\n"+
		"tls-ca-cert-file %s\ntls-cert-file %s\ntls-key-file %s\n",
		s.Port, quote(s.CA), quote(serverCert), quote(serverKey)), nil
}
