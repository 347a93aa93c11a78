package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	tusd "github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/adapter/tusdlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// uploads is one server of tusd: its store shares its folder with the others'.
type uploads struct {
	t   *testing.T
	url string
}

func newUploads(folder string, c *interlock.Client) (http.Handler, error) {
	composer := tusd.NewStoreComposer()
	filestore.New(folder).UseIn(composer)
	locker := tusdlock.New(c, "uploads")
	composer.UseLocker(locker)
	h, err := tusd.NewHandler(tusd.Config{
		BasePath: "/", StoreComposer: composer, AcquireLockTimeout: busy.Bound(time.Minute),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	return locker.Wrap(h), err
}

// request is the context of a request that is not made.
func request(ctx context.Context) (in context.Context) {
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { in = r.Context() })
	(*tusdlock.Locker)(nil).Wrap(h).ServeHTTP(nil, httptest.NewRequest("PATCH", "/", nil).WithContext(ctx))
	return in
}

func serveUploads(t *testing.T, folder string, c *interlock.Client) uploads {
	t.Helper()
	s := httptest.NewServer(errtest.Must(newUploads(folder, c))(t))
	t.Cleanup(s.Close)
	return uploads{t, s.URL}
}

func tusRequest(ctx context.Context, method, url string, body io.Reader, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, a.Body)
		a.Body.Close()
	}
	return a, err
}

// create makes an upload of so many bytes, and returns its ID.
func (u uploads) create(length int) string {
	u.t.Helper()
	a := errtest.Must(tusRequest(u.t.Context(), "POST", u.url, nil, "Upload-Length", strconv.Itoa(length)))(u.t)
	if a.StatusCode != http.StatusCreated {
		u.t.Fatalf("POST: %s", a.Status)
	}
	return filepath.Base(a.Header.Get("Location"))
}

// offset asks how much of an upload the store has.
func (u uploads) offset(id string) string {
	u.t.Helper()
	a := errtest.Must(tusRequest(u.t.Context(), "HEAD", u.url+"/"+id, nil))(u.t)
	if a.StatusCode != http.StatusOK {
		u.t.Fatalf("HEAD: %s", a.Status)
	}
	return a.Header.Get("Upload-Offset")
}

func patch(ctx context.Context, url, offset string, body io.Reader) (status int, err error) {
	a, err := tusRequest(ctx, "PATCH", url, body, "Upload-Offset", offset, "Content-Type", "application/offset+octet-stream")
	if err != nil {
		return 0, err
	}
	return a.StatusCode, nil
}

// hang begins to write an upload, and sends no more after the first bytes. It returns when the store has these, and
// receives the status of the answer.
func (u uploads) hang(folder, id, first string) <-chan int {
	u.t.Helper()
	status := make(chan int, 1)
	body, w := io.Pipe()
	u.t.Cleanup(func() { w.Close() })
	go func() { fmt.Fprint(w, first) }()
	go func() {
		s, _ := patch(u.t.Context(), u.url+"/"+id, "0", body)
		status <- s
	}()
	written(u.t, folder, id, first)
	return status
}

// written waits until the store has the text.
func written(t *testing.T, folder, id, text string) {
	t.Helper()
	errtest.None(t, testserver.Until(func() (bool, error) {
		got, err := os.ReadFile(filepath.Join(folder, id))
		return string(got) == text, err
	}))
}

// Promise: a client whose connection hangs on one server goes on at another one, which has the first one end its
// request.
func TestTusdGoesOnAtAnotherServerThoughTheFirstHangs(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		folder := t.TempDir()
		first, second := serveUploads(t, folder, open(t, url).Client), serveUploads(t, folder, open(t, url).Client)
		id := first.create(6)
		hanging := first.hang(folder, id, "abc")
		if offset := second.offset(id); offset != "3" {
			t.Errorf("%s bytes are there", offset)
		}
		if s := errtest.Received(t, "the request that hung", hanging); s != tusd.ErrUploadInterrupted.HTTPResponse.StatusCode {
			t.Errorf("the request that hung: %d", s)
		}
		if s := errtest.Must(patch(t.Context(), second.url+"/"+id, "3", strings.NewReader("def")))(t); s != http.StatusNoContent {
			t.Errorf("PATCH of the rest: %d", s)
		}
		written(t, folder, id, "abcdef")
	})
}

// Promise: so it does when both are requests of one server.
func TestTusdGoesOnAtTheSameServer(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		folder, c := t.TempDir(), open(t, url)
		server := serveUploads(t, folder, c.Client)
		id := server.create(6)
		hanging := server.hang(folder, id, "abc")
		if offset := server.offset(id); offset != "3" {
			t.Errorf("%s bytes are there", offset)
		}
		errtest.Received(t, "the request that hung", hanging)
		c.free(t, "uploads/"+id)
	})
}

func init() {
	holders["tusd"] = func(url string) error {
		url, folder, _ := strings.Cut(url, " ")
		c, err := openHolder(url)
		if err != nil {
			return err
		}
		h, err := newUploads(folder, c)
		if err != nil {
			return err
		}
		return serves(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = halting{r.Body, filepath.Join(folder, "on")}
			h.ServeHTTP(w, r)
		}))
	}
}

// Promise: a client whose server is killed in the middle of an upload goes on at another server.
func TestTusdGoesOnWhenTheServerIsKilled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		folder := t.TempDir()
		p, said := begin(t, "tusd", url+" "+folder)
		first, second := uploads{t, errtest.Received(t, "the server", said)}, serveUploads(t, folder, open(t, url).Client)
		id := first.create(6)
		first.hang(folder, id, "abc")
		p.Kill()
		if offset := second.offset(id); offset != "3" {
			t.Errorf("%s bytes are there", offset)
		}
		if s := errtest.Must(patch(t.Context(), second.url+"/"+id, "3", strings.NewReader("def")))(t); s != http.StatusNoContent {
			t.Errorf("PATCH of the rest: %d", s)
		}
		written(t, folder, id, "abcdef")
	})
}

// Promise: a request ends when its lock is lost, and the store is not written any more.
func TestTusdEndsTheRequestWhenTheLockIsLost(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		folder, c := t.TempDir(), open(t, url)
		server := serveUploads(t, folder, c.Client)
		id := server.create(6)
		hanging := server.hang(folder, id, "abc")
		errtest.None(t, c.loses(t.Context(), "uploads/"+id, true))
		if s := errtest.Received(t, "the request", hanging); s != tusd.ErrUploadInterrupted.HTTPResponse.StatusCode {
			t.Errorf("the request: %d", s)
		}
	})
}

// halting is a body that says when it has received the word. Then it waits for a file: the test stops the process
// meanwhile.
type halting struct {
	io.ReadCloser
	on string
}

const word = "stop"

func (b halting) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if string(p[:n]) == word {
		fmt.Println(holding)
		waited := testserver.Until(func() (bool, error) {
			_, err := os.Stat(b.on)
			return err == nil, nil
		})
		if waited != nil {
			return 0, waited
		}
	}
	return n, err
}

// Promise: a server that stood still while another went on with the upload writes nothing of what it has received.
func TestTusdStoppedServerWritesNothingWhenItGoesOn(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		folder := t.TempDir()
		p, said := begin(t, "tusd", url+" "+folder)
		first, second := uploads{t, errtest.Received(t, "the server", said)}, serveUploads(t, folder, open(t, url).Client)
		id := first.create(7)
		body, w := io.Pipe()
		status := make(chan int, 1)
		go func() {
			s, _ := patch(t.Context(), first.url+"/"+id, "0", body)
			status <- s
		}()
		fmt.Fprint(w, "abc")
		written(t, folder, id, "abc")
		fmt.Fprint(w, word)
		errtest.None(t, w.Close())
		errtest.Received(t, "the stop", said)
		errtest.None(t, p.Pause())
		if s := errtest.Must(patch(t.Context(), second.url+"/"+id, "3", strings.NewReader("defg")))(t); s != http.StatusNoContent {
			t.Errorf("PATCH of the rest: %d", s)
		}
		errtest.None(t, os.WriteFile(filepath.Join(folder, "on"), nil, 0o600))
		errtest.None(t, p.Resume())
		if s := errtest.Received(t, "the request of the first server", status); s != tusd.ErrUploadInterrupted.HTTPResponse.StatusCode {
			t.Errorf("the request of the first server: %d", s)
		}
		written(t, folder, id, "abcdefg")
	})
}

// Promise: without the handler of Wrap there is no lock.
func TestTusdAsksForWrap(t *testing.T) {
	c := errtest.Must(interlock.Open(t.Context(), "mem:"))(t)
	defer c.Close()
	l := errtest.Must(tusdlock.New(c, "uploads").NewLock("upload"))(t)
	errtest.Says(t, l.Lock(t.Context(), func() {}), "Wrap")
}

// Promise: a request that waits asks the holder to unlock, on the same server and on another one.
func TestTusdAsksTheHolderToUnlock(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		here, there := tusdlock.New(open(t, url).Client, "uploads"), tusdlock.New(open(t, url).Client, "uploads")
		for _, locker := range []*tusdlock.Locker{here, there} {
			holder, waiter := errtest.Must(here.NewLock("upload"))(t), errtest.Must(locker.NewLock("upload"))(t)
			asked, done := make(chan struct{}, 1), make(chan error, 1)
			errtest.None(t, holder.Lock(request(t.Context()), func() { asked <- struct{}{} }))
			ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(5*time.Second))
			defer cancel()
			go func() { done <- waiter.Lock(request(ctx), func() {}) }()
			select {
			case <-asked:
			case err := <-done:
				t.Fatalf("the holder is not asked to unlock: %v", err)
			}
			errtest.None(t, holder.Unlock())
			errtest.None(t, errtest.Received(t, "Lock", done))
			errtest.None(t, waiter.Unlock())
		}
	})
}

// Promise: each request that waits has the holder of that time unlock, one after the other, and the last one is not
// asked.
func TestTusdAsksEachHolder(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		const requests = 4
		c := open(t, url)
		lockers := []*tusdlock.Locker{tusdlock.New(c.Client, "uploads"), tusdlock.New(open(t, url).Client, "uploads")}
		asked, done := make(chan struct{}, requests), make(chan error, requests)
		hold := func(i int, locked chan<- struct{}, last bool) {
			l := errtest.Must(lockers[i%2].NewLock("upload"))(t)
			unlock := make(chan struct{}, 1)
			err := l.Lock(request(t.Context()), func() { asked <- struct{}{}; unlock <- struct{}{} })
			if err == nil && locked != nil {
				locked <- struct{}{}
			}
			if err == nil && !last {
				<-unlock
			}
			done <- errors.Join(err, l.Unlock())
		}
		locked := make(chan struct{})
		go hold(0, locked, false)
		errtest.Received(t, "the first Lock", locked)
		for i := 1; i < requests; i++ {
			go hold(i, nil, true)
		}
		for range requests {
			errtest.None(t, errtest.Received(t, "a request", done))
		}
		if n := len(asked); n == 0 {
			t.Errorf("%d were asked", n)
		}
		c.free(t, "uploads/upload")
	})
}

// Promise: a request that has waited is not asked when no other waits.
func TestTusdAsksNoRequestThatNoneWaitsFor(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		here, there := tusdlock.New(c.Client, "uploads"), tusdlock.New(open(t, url).Client, "uploads")
		for range 30 { // each time it sees that it holds about when Lock returns
			asked := make(chan struct{}, 1)
			first, second := errtest.Must(here.NewLock("upload"))(t), errtest.Must(there.NewLock("upload"))(t)
			errtest.None(t, first.Lock(request(t.Context()), func() { asked <- struct{}{} }))
			done := make(chan error, 1)
			go func() {
				done <- second.Lock(request(t.Context()), func() { t.Error("a request that none waits for is asked to unlock") })
			}()
			errtest.Received(t, "the request to unlock", asked)
			errtest.None(t, first.Unlock())
			errtest.None(t, errtest.Received(t, "Lock", done))
			errtest.Must(c.Admin().Queue(t.Context(), "uploads/upload"))(t) // one exchange, in which news come
			errtest.None(t, second.Unlock())
		}
	})
}

// Promise: a request that waits for too long is told so in tusd's words, and leaves no place in the line. IDs that make
// no name of a lock have locks, too.
func TestTusdGivesUpInTime(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		c := open(t, url)
		here, there := tusdlock.New(c.Client, "uploads"), tusdlock.New(open(t, url).Client, "uploads", interlock.Wait(time.Second))
		for _, id := range []string{"upload", "id+" + strings.Repeat("multipart.", 50), "with {braces}"} {
			l := errtest.Must(here.NewLock(id))(t)
			errtest.Is(t, l.Unlock(), interlock.ErrReleased, "Unlock of what is not locked")
			asked := make(chan struct{}, 1)
			errtest.None(t, l.Lock(request(t.Context()), func() { asked <- struct{}{} }))
			second := errtest.Must(here.NewLock(id))(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- second.Lock(request(ctx), func() {}) }()
			errtest.Received(t, "the request to unlock", asked)
			cancel()
			errtest.Is(t, errtest.Received(t, "Lock", done), tusd.ErrLockTimeout, "Lock of an ended context")
			third := errtest.Must(there.NewLock(id))(t)
			errtest.Is(t, third.Lock(request(t.Context()), func() {}), tusd.ErrLockTimeout, "Lock with Wait")
			errtest.None(t, l.Unlock())
			errtest.Is(t, third.Lock(request(t.Context()), func() {}), nil, "Lock after Unlock")
			errtest.None(t, third.Unlock())
		}
		errtest.None(t, c.Close())
		l := errtest.Must(here.NewLock("upload"))(t)
		errtest.Is(t, l.Lock(request(t.Context()), func() {}), interlock.ErrClosed, "Lock of a client that is closed")
	})
}

func Example_tusd() {
	client, err := interlock.Open(context.Background(), "mem:")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	composer := tusd.NewStoreComposer()
	filestore.New(folder).UseIn(composer)
	locker := tusdlock.New(client, "uploads")
	composer.UseLocker(locker)
	uploads, err := tusd.NewHandler(tusd.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/files/", http.StripPrefix("/files/", locker.Wrap(uploads)))
	// Output:
}
