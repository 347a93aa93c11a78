package zktest

import (
	"fmt"
	"path/filepath"

	"github.com/interlock-go/interlock/internal/testserver"
)

// TLS makes the server listen with TLS only, and accept only clients that show
// a certificate of its own authority. Config("ssl.clientAuth", "none") accepts
// all. The server's certificate is for localhost and 127.0.0.1.
func TLS() Option { return func(s *settings) { s.tls = true } }

// prepareTLS makes the authority and both certificates, and returns the lines
// of the configuration that name them.
func (s *Server) prepareTLS() (string, error) {
	ca, err := s.set.ca, error(nil)
	if ca == nil {
		if ca, err = newAuthority(s.Dir); err != nil {
			return "", err
		}
	}
	s.CA, s.ClientCert, s.ClientKey = ca.Path, s.Path("client.crt"), s.Path("client.key")
	own := s.Path("server.pem")
	if err := ca.IssueOne(own, testserver.ThisMachine, testserver.ForServer); err != nil {
		return "", err
	}
	if err := ca.Issue(s.ClientCert, s.ClientKey, testserver.ForClient); err != nil {
		return "", err
	}
	if s.secure, err = ca.ClientConfig(s.ClientCert, s.ClientKey); err != nil {
		return "", err
	}
	return fmt.Sprintf("secureClientPortAddress=127.0.0.1\nsecureClientPort=%d\n"+
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"+
		"ssl.keyStore.location=%s\nssl.trustStore.location=%s\n", s.Port, escape(own), escape(ca.Path)), nil
}

func newAuthority(dir string) (*testserver.Authority, error) {
	return testserver.NewAuthority(filepath.Join(dir, "ca.pem")) // Java knows by the name what is in it
}
