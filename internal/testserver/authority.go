package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"
)

// Authority issues certificates that only its own clients trust.
type Authority struct {
	Path string // its certificate, a PEM file

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority and writes its certificate to a file.
func NewAuthority(path string) (*Authority, error) {
	own := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{Path: path, cert: own}
	der, key, err := a.sign(own)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.key = key
	return a, os.WriteFile(path, encode("CERTIFICATE", der), 0o600)
}

// Issue writes a certificate for these names and addresses, without any for this machine, and its key: to two
// files, or to one. Servers and clients may show it.
func (a *Authority) Issue(cert, key string, hosts ...string) error {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(hosts) == 0 {
		hosts = []string{"localhost", "127.0.0.1"}
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	der, secret, err := a.sign(c)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return err
	}
	text := encode("PRIVATE KEY", pkcs8)
	if cert != key {
		err, text = os.WriteFile(key, text, 0o600), nil
	}
	return errors.Join(err, os.WriteFile(cert, append(text, encode("CERTIFICATE", der)...), 0o600))
}

// sign makes a key and its certificate, valid long enough for a server whose clock is stepped.
func (a *Authority) sign(c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64)); err != nil {
		return nil, nil, err
	}
	c.NotBefore, c.NotAfter = time.Now().AddDate(-10, 0, 0), time.Now().AddDate(10, 0, 0)
	signer := a.key
	if signer == nil { // it certifies itself
		signer = key
	}
	der, err = x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), signer)
	return der, key, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Certify makes what a server with TLS and its clients need. The server has its key in the file Cert, too.
func (s *Server) Certify() (err error) {
	if s.Authority == nil {
		// Java knows by the name what is in it.
		if s.Authority, err = NewAuthority(s.Path("ca.pem")); err != nil {
			return err
		}
	}
	s.CA, s.Cert = s.Authority.Path, s.Path("server.pem")
	s.ClientCert, s.ClientKey = s.Path("client.crt"), s.Path("client.key")
	err = errors.Join(s.Authority.Issue(s.Cert, s.Cert), s.Authority.Issue(s.ClientCert, s.ClientKey))
	if err != nil {
		return err
	}
	own, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
	s.Client = &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{own}}
	s.Client.RootCAs.AddCert(s.Authority.cert)
	return err
}
