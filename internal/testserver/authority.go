package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// Authority issues certificates that nobody else trusts.
type Authority struct {
	Path string // its certificate, a PEM file

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority and writes its certificate to a file.
func NewAuthority(path string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template("authority of a test")
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
	return &Authority{Path: path, cert: cert, key: key}, writePEM(path, block("CERTIFICATE", der))
}

// A Usage is a side of a connection that a certificate is good for.
type Usage = x509.ExtKeyUsage

// The sides.
const (
	ForServer Usage = x509.ExtKeyUsageServerAuth
	ForClient Usage = x509.ExtKeyUsageClientAuth
)

// ThisMachine is what servers of tests are called.
var ThisMachine = []string{"localhost", "127.0.0.1"}

// Issue writes a certificate for this machine, and its key.
func (a *Authority) Issue(certPath, keyPath string, usage ...Usage) error {
	cert, key, err := a.pair(ThisMachine, usage)
	if err != nil {
		return err
	}
	if err := writePEM(certPath, cert); err != nil {
		return err
	}
	return writePEM(keyPath, key)
}

// IssueOne is like Issue, with both in one file, the key first, for these names and addresses.
func (a *Authority) IssueOne(path string, hosts []string, usage ...Usage) error {
	cert, key, err := a.pair(hosts, usage)
	if err != nil {
		return err
	}
	return writePEM(path, key, cert)
}

// ClientConfig is for connections to servers of this authority. The key pair
// in the files is the client's own.
func (a *Authority) ClientConfig(certPath, keyPath string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{own}}
	config.RootCAs.AddCert(a.cert)
	return config, nil
}

func (a *Authority) pair(hosts []string, usage []Usage) (cert, key *pem.Block, err error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := template("localhost")
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = usage
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, secret.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, err
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8), nil
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

func block(kind string, der []byte) *pem.Block { return &pem.Block{Type: kind, Bytes: der} }

func writePEM(path string, blocks ...*pem.Block) error {
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	return os.WriteFile(path, text, 0o600)
}
