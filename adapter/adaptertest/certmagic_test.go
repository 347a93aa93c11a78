package adaptertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/certmagiclock"
	"github.com/interlock-go/interlock/internal/errtest"
)

var (
	_ certmagic.Locker           = (*certmagiclock.Locker)(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Locker)(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Locker)(nil)
)

type files struct{ certmagic.Storage }

// certificates is a storage that locks with Interlock.
type certificates struct {
	files
	*certmagiclock.Locker
}

// authority is what CertMagic obtains certificates from.
type authority struct {
	before func(context.Context) error // each certificate
	issued atomic.Int64
}

func (*authority) IssuerKey() string { return "authority" }

func (a *authority) Issue(ctx context.Context, r *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	a.issued.Add(1)
	if err := a.before(ctx); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: r.DNSNames, NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, r.PublicKey, key)
	return &certmagic.IssuedCertificate{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Metadata: struct{}{},
	}, err
}

// site is one instance of CertMagic: its storage shares its folder with the others'.
func site(folder string, l *certmagiclock.Locker, a certmagic.Issuer) (c *certmagic.Config, stop func()) {
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c, nil }, Logger: zap.NewNop(),
	})
	c = certmagic.New(cache, certmagic.Config{
		Storage: certificates{files{&certmagic.FileStorage{Path: folder}}, l},
		Issuers: []certmagic.Issuer{a}, Logger: zap.NewNop(),
	})
	return c, cache.Stop
}

const issuing = "certmagic/issue_cert_example.com"

// obtain obtains a certificate in the background.
func obtain(t *testing.T, folder string, l *certmagiclock.Locker, a certmagic.Issuer) <-chan error {
	t.Helper()
	c, stop := site(folder, l, a)
	t.Cleanup(stop)
	done := make(chan error, 1)
	go func() { done <- c.ObtainCertAsync(t.Context(), "example.com") }()
	return done
}

// Promise: of instances that need a certificate at once, one obtains it, and the others find it in the storage.
func TestCertMagicObtainsEachCertificateOnce(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		const instances = 3
		folder, admin := t.TempDir(), open(t, url)
		a := &authority{before: func(ctx context.Context) error { return admin.waiting(ctx, issuing, instances-1) }}
		var all []<-chan error
		for range instances {
			all = append(all, obtain(t, folder, certmagiclock.New(open(t, url).Client, "certmagic"), a))
		}
		for _, done := range all {
			errtest.None(t, errtest.Received(t, "an instance", done))
		}
		if n := a.issued.Load(); n != 1 {
			t.Errorf("%d certificates were issued", n)
		}
		admin.free(t, issuing)
	})
}

func init() {
	holders["certmagic"] = func(url string) error {
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		folder, err := os.MkdirTemp("", "")
		if err != nil {
			return err
		}
		a := &authority{before: func(context.Context) error { holds(); return nil }}
		s, _ := site(folder, certmagiclock.New(c, "certmagic"), a)
		return s.ObtainCertSync(context.Background(), "example.com")
	}
}

// Promise: an instance that waits goes on when the one that obtains has been killed.
func TestCertMagicGoesOnWhenTheHolderIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		kill := startHolder(t, "certmagic", url)
		c := open(t, url)
		a := &authority{before: func(context.Context) error { return nil }}
		done := obtain(t, t.TempDir(), certmagiclock.New(c.Client, "certmagic"), a)
		errtest.None(t, c.waiting(t.Context(), issuing, 1))
		kill()
		errtest.None(t, errtest.Received(t, "the instance that waits", done))
	})
}

// Promise: goroutines of one process exclude each other, and each Unlock releases the lock of its name.
func TestCertMagicUnlocksTheLockOfTheName(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		l := certmagiclock.New(open(t, url).Client, "certmagic")
		names := []string{"a", "b", strings.Repeat("long.", 50), "with {braces}"}
		in := make([]atomic.Int64, len(names))
		var wg sync.WaitGroup
		for i, name := range names {
			for range 4 {
				wg.Go(func() {
					for range 5 {
						if err := l.Lock(t.Context(), name); err != nil {
							t.Errorf("Lock %s: %v", name, err)
							return
						}
						if n := in[i].Add(1); n != 1 {
							t.Errorf("%d are in %s at once", n, name)
						}
						in[i].Add(-1)
						errtest.Is(t, l.Unlock(t.Context(), name), nil, "Unlock", name)
					}
				})
			}
		}
		wg.Wait()
	})
}

// Promise: TryLock says no without an error when another has the lock, in this process or elsewhere, and what could not
// be asked is an error.
func TestCertMagicTriesWithoutWaiting(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		here := certmagiclock.New(c.Client, "certmagic")
		there := certmagiclock.New(open(t, url).Client, "certmagic")
		try := func(l *certmagiclock.Locker, want bool) {
			t.Helper()
			if got, err := l.TryLock(t.Context(), "ari"); got != want || err != nil {
				t.Errorf("TryLock: %v, %v, want %v", got, err, want)
			}
		}
		try(here, true)
		try(here, false)
		try(there, false)
		errtest.None(t, here.Unlock(t.Context(), "ari"))
		try(there, true)
		errtest.None(t, c.Close())
		if got, err := here.TryLock(t.Context(), "ari"); got || err == nil {
			t.Errorf("TryLock without a backend: %v, %v", got, err)
		}
	})
}

// Promise: an attempt whose lock was lost takes it again before it goes on, and no attempt is made beside another's.
func TestCertMagicMakesNoAttemptWithoutTheLock(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c, other := open(t, url), open(t, url)
		l := certmagiclock.New(c.Client, "certmagic")
		renew := func() error { return l.RenewLockLease(t.Context(), "issue_cert_example.com", time.Hour) }
		errtest.Is(t, renew(), interlock.ErrReleased, "a renewal of what is not locked")
		errtest.None(t, l.Lock(t.Context(), "issue_cert_example.com"))
		errtest.Is(t, renew(), nil, "a renewal")
		errtest.None(t, c.loses(t.Context(), issuing, true))
		lease := errtest.Must(other.Mutex(issuing).TryAcquire(t.Context()))(t)
		errtest.Is(t, renew(), interlock.ErrBusy, "a renewal of what another holds")
		errtest.None(t, lease.Release())
		errtest.Is(t, renew(), nil, "a renewal of what is free again")
		_, err := other.Mutex(issuing).TryAcquire(t.Context())
		errtest.Is(t, err, interlock.ErrBusy, "TryAcquire of the other after a renewal")
		errtest.None(t, l.Unlock(t.Context(), "issue_cert_example.com"))
		other.free(t, issuing)
	})
}

// losing is a storage whose locks are lost as soon as they are held.
type losing struct {
	certificates
	lose func(context.Context) error
}

func (s losing) Lock(ctx context.Context, name string) error {
	if err := s.certificates.Lock(ctx, name); err != nil {
		return err
	}
	return s.lose(ctx)
}

// Promise: CertMagic, too, takes a lost lock again before an attempt, and works under it.
func TestCertMagicTakesALostLockAgain(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c, other := open(t, url), open(t, url)
		a := &authority{before: func(ctx context.Context) error {
			_, err := other.Mutex(issuing).TryAcquire(ctx)
			errtest.Is(t, err, interlock.ErrBusy, "TryAcquire of the other")
			return nil
		}}
		s, stop := site(t.TempDir(), certmagiclock.New(c.Client, "certmagic"), a)
		defer stop()
		s.Storage = losing{s.Storage.(certificates), func(ctx context.Context) error { return c.loses(ctx, issuing, false) }}
		done := make(chan error, 1)
		go func() { done <- s.ObtainCertAsync(t.Context(), "example.com") }()
		errtest.None(t, errtest.Received(t, "the instance", done))
		other.free(t, issuing)
	})
}

// Promise: Unlock releases though its context has ended, says that the lock was lost, and lets the same lock be
// unlocked again, as CertMagic does when the process ends.
func TestCertMagicUnlocksAtTheEndOfTheProcess(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c, other := open(t, url), open(t, url)
		l := certmagiclock.New(c.Client, "certmagic")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		errtest.Is(t, l.Lock(ended, "example"), context.Canceled, "Lock with a context that has ended")
		errtest.None(t, l.Lock(t.Context(), "example"))
		errtest.Is(t, l.Unlock(ended, "example"), nil, "Unlock")
		other.free(t, "certmagic/example")
		errtest.Is(t, l.Unlock(ended, "example"), nil, "the second Unlock")

		errtest.None(t, l.Lock(t.Context(), "example"))
		errtest.None(t, c.loses(t.Context(), "certmagic/example", true))
		errtest.Is(t, l.Unlock(ended, "example"), interlock.ErrLost, "Unlock of a lock that was lost")
		errtest.Is(t, l.Unlock(ended, "example"), nil, "the second Unlock of a lock that was lost")
	})
}

func Example_certMagic() {
	ctx := context.Background()
	client, err := interlock.Open(ctx, "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	folder := &certmagic.FileStorage{Path: "certificates"} // or S3, or another storage that all share
	var storage certmagic.Storage = certificates{files{folder}, certmagiclock.New(client, "certmagic")}
	fmt.Println(storage.Lock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// <nil>
}
