package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
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
		if ca, err = newAuthority(s.path("ca.crt")); err != nil {
			return "", err
		}
	}
	s.CA, s.ClientCert, s.ClientKey = ca.path, s.path("client.crt"), s.path("client.key")
	serverCert, serverKey := s.path("server.crt"), s.path("server.key")
	// The nodes of a cluster are clients of each other.
	if err := ca.issue(serverCert, serverKey, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth); err != nil {
		return "", err
	}
	if err := ca.issue(s.ClientCert, s.ClientKey, x509.ExtKeyUsageClientAuth); err != nil {
		return "", err
	}
	own, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
	if err != nil {
		return "", err
	}
	s.secure = &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{own}}
	s.secure.RootCAs.AddCert(ca.cert)
	return fmt.Sprintf("port 0\ntls-port %d\ntls-replication yes\ntls-cluster yes\n"+
		"tls-ca-cert-file %s\ntls-cert-file %s\ntls-key-file %s\n",
		s.Port, quote(s.CA), quote(serverCert), quote(serverKey)), nil
}

type authority struct {
	path string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(path string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template("redistest authority")
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{path, cert, key}, writePEM(path, "CERTIFICATE", der)
}

// issue writes a certificate for this machine, and its key.
func (a *authority) issue(certPath, keyPath string, usage ...x509.ExtKeyUsage) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := template("localhost")
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = usage
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(certPath, "CERTIFICATE", der); err != nil {
		return err
	}
	return writePEM(keyPath, "PRIVATE KEY", secret)
}

// template is valid long enough for a server whose clock is stepped.
func template(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, err
	}
	const years = 10 * 365 * 24 * time.Hour
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-years),
		NotAfter:     time.Now().Add(years),
	}, nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
