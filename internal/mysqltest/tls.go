package mysqltest

import "github.com/interlock-go/interlock/internal/testserver"

// prepareTLS makes the authority and both certificates, and returns the lines
// of the configuration that name them.
func (s *Server) prepareTLS() ([]string, error) {
	ca, err := testserver.NewAuthority(s.Path("ca.crt"))
	if err != nil {
		return nil, err
	}
	s.CA, s.ClientCert, s.ClientKey = ca.Path, s.Path("client.crt"), s.Path("client.key")
	cert, key := s.Path("server.crt"), s.Path("server.key")
	if err := ca.Issue(cert, key, testserver.ForServer); err != nil {
		return nil, err
	}
	if err := ca.Issue(s.ClientCert, s.ClientKey, testserver.ForClient); err != nil {
		return nil, err
	}
	return []string{line("ssl_ca", s.CA), line("ssl_cert", cert), line("ssl_key", key)}, nil
}
