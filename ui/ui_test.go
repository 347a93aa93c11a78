package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// bound ends each wait.
const bound = 20 * time.Second

// hostile is a text that must never be read as HTML.
const hostile = `<script>alert("x")</script><img src=x onerror='alert(1)'>`

type world struct {
	t *testing.T
	d *memlock.Driver
	c *interlock.Client
	*httptest.Server
}

func serve(t *testing.T, cfg Config) world {
	t.Helper()
	d := memlock.New()
	c := errtest.Must(interlock.New(t.Context(), d, interlock.Owner("owner "+hostile)))(t)
	t.Cleanup(func() { c.Close() })
	cfg.Log = slog.New(slog.DiscardHandler)
	server := httptest.NewServer(New(c, cfg))
	t.Cleanup(server.Close)
	return world{t, d, c, server}
}

func (w world) acquire(name string) *interlock.Lease {
	w.t.Helper()
	lease := errtest.Must(w.c.Mutex(name, interlock.Note("note "+hostile)).Acquire(w.t.Context()))(w.t)
	w.t.Cleanup(func() { lease.Release() })
	return lease
}

// ask sends a request, and returns the answer with its text. It follows no redirection.
func (w world) ask(method, path string, form url.Values, change ...func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	r := errtest.Must(http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(form.Encode())))(w.t)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	answer := errtest.Must(http.DefaultTransport.RoundTrip(r))(w.t)
	defer answer.Body.Close()
	text := errtest.Must(io.ReadAll(answer.Body))(w.t)
	return answer, string(text)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func bearer(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }

func (w world) want(code int, method, path string, form url.Values, change ...func(*http.Request)) string {
	w.t.Helper()
	answer, text := w.ask(method, path, form, change...)
	if answer.StatusCode != code {
		w.t.Errorf("%s %s: %s, want %d: %s", method, path, answer.Status, code, text)
	}
	return text
}

// everywhere are the addresses that answer.
var everywhere = []string{
	"/", "/lock?name=a", "/waits", "/longest", "/stored", "/checks", "/api/locks", "/api/locks/a", "/api/waits",
	"/api/longest", "/api/stored", "/api/checks", "/metrics",
}

// Promise: the address with the token lets one browser in, until that has come back with its cookie; the cookie is for
// this page alone and not for scripts, and the token stays good for programs.
func TestTheTokenLetsOneBrowserIn(t *testing.T) {
	w := serve(t, Config{Token: "a long token", Backend: "the backend"})
	for _, path := range everywhere {
		w.want(401, "GET", path, nil)
		if text := w.want(401, "GET", path, nil, bearer("another")); strings.Contains(text, "Stored") || strings.Contains(text, "the backend") {
			t.Errorf("%s shows %s", path, text)
		}
		w.want(200, "GET", path, nil, bearer("a long token"))
		w.want(200, "GET", path, nil, header("Authorization", "bearer a long token"))
	}
	w.want(401, "GET", "/?token=another", nil)
	w.want(401, "GET", "/?token=", nil)
	early, _ := w.ask("GET", "/?token=a+long+token", nil) // a look that never comes back takes nothing away
	answer, _ := w.ask("GET", "/lock?name=x&token=a+long+token", nil)
	cookies := answer.Cookies()
	if answer.StatusCode != 303 || answer.Header.Get("Location") != "lock?name=x" || len(cookies) != 1 {
		t.Fatalf("%s to %q with %v", answer.Status, answer.Header.Get("Location"), cookies)
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Value == "a long token" {
		t.Errorf("the cookie is %v", c)
	}
	cookie := func(r *http.Request) { r.AddCookie(cookies[0]) }
	w.want(200, "GET", "/", nil, cookie)
	w.want(401, "GET", "/", nil, func(r *http.Request) { r.AddCookie(early.Cookies()[0]) }) // the first that comes back is the one
	w.want(401, "GET", "/?token=a+long+token", nil)
	w.want(200, "GET", "/", nil, cookie)
	w.want(200, "GET", "/api/locks", nil, bearer("a long token"))
	w.want(200, "GET", "/static/ui.css", nil)
}

// Promise: with a password, a visitor gives it to the browser, and a program sends it as a bearer token.
func TestThePasswordLetsIn(t *testing.T) {
	w := serve(t, Config{Password: "correct horse"})
	answer, _ := w.ask("GET", "/", nil)
	if answer.StatusCode != 401 || !strings.HasPrefix(answer.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("%s, %v", answer.Status, answer.Header)
	}
	w.want(200, "GET", "/", nil, func(r *http.Request) { r.SetBasicAuth("me", "correct horse") })
	w.want(401, "GET", "/", nil, func(r *http.Request) { r.SetBasicAuth("correct horse", "me") })
	w.want(200, "GET", "/api/locks", nil, bearer("correct horse"))
	w.want(401, "GET", "/?token=correct+horse", nil)
}

// Promise: who sends ten wrong passwords in a minute is not listened to for the rest of it, whatever comes; others are.
func TestGuessersOfThePasswordAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := errtest.Must(interlock.New(t.Context(), memlock.New()))(t)
		defer c.Close()
		page := New(c, Config{Password: "correct horse", Log: slog.New(slog.DiscardHandler)})
		want := func(code int, from, password string) {
			t.Helper()
			r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
			r.RemoteAddr = from + ":1"
			if password != "" {
				r.SetBasicAuth("me", password)
			}
			if page.ServeHTTP(w, r); w.Code != code {
				t.Errorf("%q from %s: %d, want %d", password, from, w.Code, code)
			}
		}
		for range 20 {
			want(401, "10.0.0.1", "") // a browser that has not asked its user yet
		}
		for range mostGuesses {
			want(401, "10.0.0.1", "guess")
		}
		want(429, "10.0.0.1", "guess")
		want(429, "10.0.0.1", "correct horse")
		want(200, "10.0.0.2", "correct horse")
		time.Sleep(guessTime)
		want(200, "10.0.0.1", "correct horse")
		for i := range mostGuessers + 1 {
			page.doors.guesses.count(&http.Request{RemoteAddr: fmt.Sprintf("10.1.%d.%d:1", i/256, i%256), Header: http.Header{"Authorization": {"x"}}})
		}
		if n := len(page.doors.guesses.wrong); n > mostGuessers {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}

// Promise: a request on which the proxy in front says no user is refused.
func TestTheProxySaysWhoTheVisitorIs(t *testing.T) {
	w := serve(t, Config{UserHeader: "X-User"})
	for _, path := range everywhere {
		w.want(403, "GET", path, nil)
		w.want(200, "GET", path, nil, header("X-User", "me"))
	}
}

// Promise: what another site has a browser send is refused, and so is a name of this server that nobody has given it.
func TestOtherSitesAreRefused(t *testing.T) {
	w := serve(t, Config{AllowChanges: true, Hosts: []string{"127.0.0.1", "Locks.Example"}})
	lease := w.acquire("a")
	form := url.Values{"do": {"revoke"}, "name": {"a"}, "id": {lease.ID()}}
	w.want(403, "POST", "/change", form, header("Sec-Fetch-Site", "cross-site"))
	w.want(403, "POST", "/change", form, header("Sec-Fetch-Site", "same-site"))
	w.want(403, "POST", "/change", form, header("Origin", "https://evil.example"))
	w.want(403, "GET", "/api/locks", nil, header("Sec-Fetch-Site", "cross-site"))
	w.want(403, "GET", "/api/events", nil, header("Sec-Fetch-Site", "cross-site"))
	w.want(200, "GET", "/", nil, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"))
	w.want(421, "GET", "/", nil, func(r *http.Request) { r.Host = "evil.example" })
	w.want(421, "GET", "/", nil, func(r *http.Request) { r.Host = "evil.example:80" })
	w.want(200, "GET", "/", nil, func(r *http.Request) { r.Host = "locks.eXample:80" })
	select {
	case <-lease.Revoked():
		t.Error("another site has asked for the lock")
	default:
	}
	w.want(303, "POST", "/change", form, header("Sec-Fetch-Site", "same-origin"))
}

// Promise: all that others have written is text, on every page, and no page may load anything from elsewhere.
func TestHostileTextsAreText(t *testing.T) {
	name := strings.ReplaceAll(hostile, "/", "∕")
	w := serve(t, Config{AllowChanges: true, Backend: hostile})
	w.acquire(name)
	waiting, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = w.c.Mutex(name).Acquire(waiting)
	}()
	defer func() { cancel(); <-ended }()
	errtest.Must(w.c.Latch(name).Set(t.Context(), 3))(t)
	q := url.Values{"name": {name}, "do": {"evict"}, "id": {hostile}, "text": {hostile}, "prefix": {hostile}, "done": {hostile}}.Encode()
	for _, page := range []string{"/", "/lock", "/waits", "/longest", "/stored", "/checks", "/change", "/nowhere"} {
		answer, text := w.ask("GET", page+"?"+q, nil)
		if strings.Contains(text, "<script>alert") || strings.Contains(text, "<img") || strings.Contains(text, "<∕script>") {
			t.Errorf("%s has what others have written: %s", page, text)
		}
		if csp := answer.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy is %q", page, csp)
		}
	}
}

// Promise: what turns the direction of a text around is shown, and escaped for programs, and the name that is shown is
// the one to be typed.
func TestDirectionsAreShown(t *testing.T) {
	w := serve(t, Config{AllowChanges: true})
	name := "imports\u202egnp.exe"
	lease := w.acquire(name)
	for _, page := range []string{"/", "/lock?name=" + url.QueryEscape(name)} {
		text := strings.ReplaceAll(w.want(200, "GET", page, nil), `value="`+name+`"`, "") // what a form sends
		if strings.Contains(text, "\u202e") || !strings.Contains(text, "imports·gnp.exe") {
			t.Errorf("%s: %s", page, text)
		}
	}
	if text := w.want(200, "GET", "/api/locks", nil); strings.Contains(text, "\u202e") || !strings.Contains(text, `imports\u202egnp.exe`) {
		t.Error(text)
	}
	w.want(303, "POST", "/change", url.Values{"do": {"evict"}, "name": {name}, "id": {lease.ID()}, "confirm": {"imports·gnp.exe"}})
}

// Promise: while the backend does not answer, a stream says so, of all locks and of one, and goes on afterwards; a page
// is an error that loads itself again, and does not wait as long as the first one has.
func TestAnOutageIsSaidByStreams(t *testing.T) {
	for _, query := range []string{"brief=1", "name=a", "name=a&brief=1"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			w := serve(t, Config{})
			w.acquire("a")
			r := errtest.Must(http.NewRequestWithContext(t.Context(), "GET", w.URL+"/api/events?"+query, nil))(t)
			answer := errtest.Must(http.DefaultClient.Do(r))(t)
			kinds := make(chan string)
			go func() {
				defer close(kinds)
				for s := bufio.NewScanner(answer.Body); s.Scan(); {
					if kind, ok := strings.CutPrefix(s.Text(), "event: "); ok {
						kinds <- kind
					}
				}
			}()
			until := func(want string) {
				end := time.After(busy.Bound(bound))
				for {
					select {
					case kind := <-kinds:
						if kind == want {
							return
						}
					case <-end:
						t.Fatalf("%s: no event %s", query, want)
					}
				}
			}
			until("state")
			w.d.Faults().Cut()
			until("away")
			w.want(503, "GET", "/api/locks/a", nil)
			began := time.Now()
			if text := w.want(503, "GET", "/lock?name=a", nil); !strings.Contains(text, `data-stream="api/events?brief=1"`) {
				t.Errorf("the page does not load itself again: %s", text)
			}
			if waited := time.Since(began); waited > patience {
				t.Errorf("a page waits for %v, though another one has", waited)
			}
			w.d.Faults().Heal()
			until("state")
			answer.Body.Close()
			for range kinds {
			}
		})
	}
}

// Promise: without AllowChanges nothing changes; with it, what is dangerous needs the name once more.
func TestChanges(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		w := serve(t, Config{AllowChanges: allowed})
		lease := w.acquire("a")
		yes, wrong := 403, 403
		if allowed {
			yes, wrong = 303, 422
		}
		if text := w.want(200, "GET", "/lock?name=a", nil); strings.Contains(text, "evict") != allowed {
			t.Errorf("the page of a lock: %s", text)
		}
		v := interlock.NewValue[string](w.c, "v")
		errtest.Must(v.Set(t.Context(), "x", 0))(t)
		w.want(yes, "POST", "/change", url.Values{"do": {"revoke"}, "name": {"a"}, "id": {lease.ID()}})
		w.want(yes, "POST", "/change", url.Values{"do": {"latch"}, "name": {"l"}, "count": {"2"}})
		w.want(wrong, "POST", "/change", url.Values{"do": {"evict"}, "name": {"a"}, "id": {lease.ID()}})
		w.want(wrong, "POST", "/change", url.Values{"do": {"force"}, "name": {"a"}, "id": {lease.ID()}, "confirm": {"b"}})
		w.want(wrong, "POST", "/change", url.Values{"do": {"delete"}, "name": {"v"}})
		if lease.Err() != nil {
			t.Errorf("the lease is lost: %v", lease.Err())
		}
		w.want(yes, "POST", "/change", url.Values{"do": {"delete"}, "name": {"v"}, "confirm": {"v"}})
		w.want(yes, "POST", "/change", url.Values{"do": {"evict"}, "name": {"a"}, "id": {lease.ID()}, "confirm": {"a"}})
		_, latch, err := w.c.Latch("l").Count(t.Context())
		if err != nil || latch != allowed {
			t.Errorf("the latch is set: %v, %v", latch, err)
		}
		if s, err := v.Get(t.Context()); err != nil || s.Exists == allowed {
			t.Errorf("the value exists: %v, %v", s.Exists, err)
		}
		if !allowed {
			continue
		}
		select {
		case <-lease.Done():
		case <-time.After(busy.Bound(bound)):
			t.Error("the lease is not lost")
		}
		w.want(404, "POST", "/change", url.Values{"do": {"evict"}, "name": {"a"}, "id": {"0123456789abcdef0123456789abcdef"}, "confirm": {"a"}})
		w.want(404, "GET", "/change?do=evict&name=a&id=x", nil)
		w.want(409, "POST", "/change", url.Values{"do": {"latch"}, "name": {"l"}, "count": {"2"}})
		w.want(405, "PUT", "/change", nil)
		w.want(400, "POST", "/change", url.Values{"do": {"drop"}, "name": {"a"}})
		w.want(400, "POST", "/change", url.Values{"do": {"latch"}, "name": {"l"}, "count": {"many"}})
	}
}

// Promise: an address that asks for nonsense is an error that says what is wanted.
func TestNonsenseIsRefused(t *testing.T) {
	w := serve(t, Config{})
	for path, says := range map[string]string{
		"/api/locks?order=size":  "take one of name",
		"/api/locks?older=soon":  "a duration such as 30s",
		"/api/locks?older=-3s":   "a duration such as 30s",
		"/api/locks?offset=-1":   "a whole number",
		"/api/events?limit=many": "a whole number",
		"/api/locks?limit=0":     "1 to 1000",
		"/api/locks?waiting=x":   "1 or 0",
		"/api/locks/a%7Bb":       "name",
		"/?order=size":           "take one of name",
		"/lock?name=a%7Bb":       "name",
	} {
		if text := w.want(400, "GET", path, nil); !strings.Contains(text, says) {
			t.Errorf("%s says %s", path, text)
		}
	}
	w.want(404, "GET", "/api/nothing", nil)
	w.want(404, "GET", "/nothing", nil)
}

// Promise: of many locks a page has a part, and the way to the next.
func TestManyLocksArePaged(t *testing.T) {
	w := serve(t, Config{})
	for i := range 120 {
		w.acquire(fmt.Sprintf("job/%03d", i))
	}
	var got locksJSON
	errtest.None(t, json.Unmarshal([]byte(w.want(200, "GET", "/api/locks?order=name&offset=100&limit=15", nil)), &got))
	if got.Total != 120 || len(got.Locks) != 15 || got.Locks[0].Name != "job/100" {
		t.Errorf("%d of %d, from %+v", len(got.Locks), got.Total, got.Locks[0])
	}
	if text := w.want(200, "GET", "/metrics", nil); !strings.Contains(text, `interlock_lock_holders{kind="mutex",name="job/007"}`) {
		t.Errorf("the metrics are %.300s", text)
	}
	text := w.want(200, "GET", "/?order=name&text=JOB", nil)
	if n := strings.Count(text, `class="row"`); n != rowsShown || !strings.Contains(text, `href="./?offset=50&amp;order=name&amp;text=JOB"`) {
		t.Errorf("%d rows: %s", n, text)
	}
	if text := w.want(200, "GET", "/?order=name&offset=100", nil); strings.Count(text, `class="row"`) != 20 || strings.Contains(text, `rel="next"`) {
		t.Errorf("the last page: %s", text)
	}
}

// Promise: a stream says the state at once, and again after a change.
func TestAStreamTellsOfChanges(t *testing.T) {
	for query, says := range map[string]string{"": `"name":"a"`, "name=a": `"holders":[{`, "brief=1": `"at":`} {
		w := serve(t, Config{})
		r := errtest.Must(http.NewRequestWithContext(t.Context(), "GET", w.URL+"/api/events?"+query, nil))(t)
		answer := errtest.Must(http.DefaultClient.Do(r))(t)
		defer answer.Body.Close()
		if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Fatalf("the answer is %s", kind)
		}
		lines := make(chan string)
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(answer.Body); s.Scan(); {
				if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
					lines <- data
				}
			}
		}()
		next := func() string {
			select {
			case line := <-lines:
				return line
			case <-time.After(busy.Bound(bound)):
				t.Fatalf("%s: no event", query)
				return ""
			}
		}
		if first := next(); query != "brief=1" && strings.Contains(first, says) {
			t.Errorf("%s: the first state is %s", query, first)
		}
		lease := w.acquire("a")
		for !strings.Contains(next(), says) {
		}
		errtest.None(t, lease.Release())
		answer.Body.Close()
		for range lines {
		}
	}
}

// slowReader takes nothing of an answer until it is released.
type slowReader struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s slowReader) Write(text []byte) (int, error) {
	<-s.release
	return s.ResponseRecorder.Write(text)
}

// Promise: readers that take no answer fill no memory: others are told to come again, until these have ended.
func TestSlowReadersFillNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := errtest.Must(interlock.New(t.Context(), memlock.New()))(t)
		defer c.Close()
		h := New(c, Config{Log: slog.New(slog.DiscardHandler)})
		code := func(path string) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			return w.Code
		}
		release := make(chan struct{})
		for range mostAnswers {
			go h.ServeHTTP(slowReader{httptest.NewRecorder(), release}, httptest.NewRequest("GET", "/", nil))
		}
		synctest.Wait()
		for _, path := range []string{"/api/locks", "/api/locks/a/events"} {
			if got := code(path); got != http.StatusServiceUnavailable {
				t.Errorf("beside %d slow readers the answer of %s is %d", mostAnswers, path, got)
			}
		}
		close(release)
		if got := code("/api/locks"); got != http.StatusOK {
			t.Errorf("after slow readers the answer is %d", got)
		}
	})
}

// Promise: a page of the program that mounts the handler is behind the same checks as the others, and in their frame.
func TestPagesOfTheProgramAreBehindTheSameChecks(t *testing.T) {
	below := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "below at "+r.URL.Path) })
	w := serve(t, Config{Token: "a long token", Pages: []Page{
		{Path: "own", Title: "Our page", News: func() <-chan struct{} { return nil }, Below: below, Main: func(w io.Writer, _ *http.Request) error {
			_, err := io.WriteString(w, "<p>ours</p>")
			return err
		}},
		{Path: "alone", Title: "Alone", Main: func(io.Writer, *http.Request) error { return interlock.ErrUnavailable }},
	}})
	w.want(401, "GET", "/own", nil)
	w.want(401, "GET", "/own/events", nil)
	w.want(401, "POST", "/own/do", url.Values{})
	w.want(403, "POST", "/own/do", url.Values{}, bearer("a long token"), header("Sec-Fetch-Site", "cross-site"))
	if text := w.want(200, "POST", "/own/do", url.Values{}, bearer("a long token")); text != "below at /do" {
		t.Error(text)
	}
	text := w.want(200, "GET", "/own", nil, bearer("a long token"))
	for _, part := range []string{"<p>ours</p>", `data-stream="own/events"`, `<a href="own" aria-current="page">Our page</a>`, `<a href="waits"`} {
		if !strings.Contains(text, part) {
			t.Errorf("the page has no %s:\n%s", part, text)
		}
	}
	w.want(503, "GET", "/alone", nil, bearer("a long token"))
	w.want(404, "GET", "/alone/x", nil, bearer("a long token"))
	w.want(404, "GET", "/alone/events", nil, bearer("a long token"))
}
