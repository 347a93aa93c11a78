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
	s.CA, s.ClientCert, s.ClientKey = s.path("ca.crt"), s.path("client.crt"), s.path("client.key")
	serverCert, serverKey := s.path("server.crt"), s.path("server.key")
	ca, err := newAuthority(s.CA)
	if err != nil {
		return "", err
	}
	if err := ca.issue(serverCert, serverKey, x509.ExtKeyUsageServerAuth); err != nil {
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
	return fmt.Sprintf("port 0\ntls-port %d\ntls-ca-cert-file %s\ntls-cert-file %s\ntls-key-file %s\n",
		s.Port, quote(s.CA), quote(serverCert), quote(serverKey)), nil
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(path string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template(1, "redistest authority")
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
	return &authority{cert, key}, writePEM(path, "CERTIFICATE", der)
}

// issue writes a certificate for this machine, and its key.
func (a *authority) issue(certPath, keyPath string, usage x509.ExtKeyUsage) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template(2+int64(usage), "localhost")
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
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
func template(serial int64, name string) *x509.Certificate {
	const years = 10 * 365 * 24 * time.Hour
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-years),
		NotAfter:     time.Now().Add(years),
	}
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
