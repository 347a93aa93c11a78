//go:build linux

package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// held is a world in which "nightly" is held and waited for, and "quiet" is held.
func held(t *testing.T) (w *world, holder interface{ kill() }) {
	w = newWorld(t)
	first := w.start("run", "--note", "the first", "nightly", "--", "sleep", "600")
	w.until("the first", "show", "nightly")
	w.start("run", "--note", "the second", "nightly", "--", "sleep", "600")
	w.until("the second", "show", "nightly")
	w.start("run", "--note", "alone", "quiet", "--", "sleep", "600")
	w.until("alone", "ls")
	return w, group{first.Process.Pid}
}

// group is a command with its job.
type group struct{ pid int }

func (g group) kill() { _ = syscall.Kill(-g.pid, syscall.SIGKILL) }

// holds waits until the page of a lock shows a holder with a note.
func (b tab) holds(note string) {
	b.t.Helper()
	b.becomes(note+" holds", fmt.Sprintf(`[...document.querySelectorAll("h2")].find(h => h.innerText == "Holders").nextElementSibling.innerText.includes(%q)`, note))
}

// Promise: a user finds the lock that all wait for, sees its holder die, and the next one come, without a touch.
func TestTheHolderDiesAndTheNextOneComes(t *testing.T) {
	t.Parallel()
	w, holder := held(t)
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(w.ui()))
	b.sees("nightly")
	if first := eval[string](b, `document.querySelector("tbody a.row").innerText`); first != "nightly" {
		t.Errorf("the first lock is %q, and not the one that is waited for", first)
	}
	b.click("a", "nightly")
	b.sees("the second")
	b.holds("the first")
	b.sees("live")
	holder.kill()
	b.holds("the second")
	b.sees("No one waits.")
	b.becomes("the end of the first grant", `document.body.innerText.match(/\b(expired|released)\b.*/)`)
	b.shot("died")
}

// Promise: an operator evicts a holder after typing the name of the lock, and a wrong name changes nothing.
func TestEvict(t *testing.T) {
	t.Parallel()
	w, _ := held(t)
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(w.ui("--allow-changes")))
	b.click("a", "nightly")
	b.click("a", "evict")
	b.do("type another name", chromedp.WaitVisible(`input[name=confirm]`), chromedp.SendKeys(`input[name=confirm]`, "quiet"))
	b.click("form.confirm button", "")
	b.sees("The name that you typed is not that of the lock.")
	w.until("the first", "show", "nightly")
	b.do("type the name", chromedp.SendKeys(`input[name=confirm]`, "nightly"))
	b.click("form.confirm button", "")
	b.sees("The lease was taken away.")
	b.holds("the second")
	b.sees("evicted")
	b.shot("evicted")
}

// Promise: names and notes that are HTML, or turn the direction of a text around, are text.
func TestAHostileNameIsReadHarmlessly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := `<img src=x onerror=document.title='owned'>"'` + strings.Repeat("w", 200)[:100]
	note := "<script>document.title='owned'</script>"
	w.start("run", "--note", note, name, "--", "sleep", "600")
	w.until("onerror", "ls")
	b := newTab(t, 360, 740)
	b.do("open", chromedp.Navigate(w.ui()))
	b.sees("<img src=x onerror=")
	b.sees("<script>document.title")
	b.click("tbody a.row", "")
	b.holds("<script>document.title")
	if title := eval[string](b, "document.title"); strings.HasPrefix(title, "owned") || eval[int](b, `document.querySelectorAll("main img, main script").length`) > 0 {
		t.Errorf("the name was read as HTML: the title is %q", title)
	}
	if over := eval[int](b, "document.documentElement.scrollWidth - window.innerWidth"); over > 0 {
		t.Errorf("%d pixels are beyond the right side", over)
	}
}

// Promise: the page works below a prefix of a proxy that strips it, and stays live there.
func TestBehindAPrefix(t *testing.T) {
	t.Parallel()
	w, holder := held(t)
	address := errtest.Must(url.Parse(w.ui()))(t)
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address.Host})
	behind.FlushInterval = -1
	proxy := httptest.NewServer(http.StripPrefix("/ops/locks", behind))
	t.Cleanup(proxy.Close)
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(proxy.URL+"/ops/locks/?"+address.RawQuery))
	b.sees("nightly")
	for _, link := range []string{"Who waits for whom", "Longest waits", "Stored", "Checks", "Locks"} {
		b.click("nav a", link)
		b.becomes(link, fmt.Sprintf(`document.querySelector("nav a[aria-current]").innerText == %q`, link))
		if at := eval[string](b, "location.pathname"); !strings.HasPrefix(at, "/ops/locks/") {
			t.Errorf("%s leads to %s", link, at)
		}
	}
	b.click("a", "nightly")
	b.holds("the first")
	b.sees("live")
	holder.kill()
	b.holds("the second")
}

// Promise: without scripts the tables are there, and so are the filter and the way to a lock.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	w, _ := held(t)
	b := newTab(t, 1280, 800)
	b.do("open", emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(w.ui()), chromedp.WaitVisible(`//a[.="quiet"]`, chromedp.BySearch),
		chromedp.Click(`input[name=waiting]`), chromedp.Click(`form.filter button`),
		chromedp.WaitNotPresent(`//a[.="quiet"]`, chromedp.BySearch), chromedp.Click(`//a[.="nightly"]`, chromedp.BySearch),
		chromedp.WaitVisible(`//th[.="#"]`, chromedp.BySearch), chromedp.WaitVisible(`//bdi[.="the second"]`, chromedp.BySearch))
}

// Promise: the keyboard is enough: filter, move, open, back, pause.
func TestTheKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	w, holder := held(t)
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(w.ui()))
	b.sees("live")
	b.do("move", chromedp.KeyEvent("jj"))
	if at := eval[string](b, "document.activeElement.innerText"); at != "quiet" {
		t.Errorf("jj leads to %q", at)
	}
	b.do("open", chromedp.KeyEvent("k"), chromedp.KeyEvent(kb.Enter))
	b.holds("the first")
	b.sees("live") // the script is there
	b.do("back", chromedp.KeyEvent("u"))
	b.sees("only with waiters")
	b.sees("live")
	// A key that is pressed, without the character that a browser drops when the page has taken the key.
	b.do("filter", input.DispatchKeyEvent(input.KeyRawDown).WithKey("/"), input.DispatchKeyEvent(input.KeyUp).WithKey("/"), chromedp.KeyEvent("alone"), chromedp.KeyEvent(kb.Enter))
	b.gone("a", "nightly")
	b.sees("quiet")
	b.do("open nightly", chromedp.Navigate(eval[string](b, "location.origin")+"/lock?name=nightly"))
	b.holds("the first")
	b.sees("live")
	b.do("pause", chromedp.KeyEvent(" "))
	b.sees("paused")
	holder.kill()
	w.until("held by 1, 0 waiting", "show", "nightly")
	b.holds("the first")
	b.do("go on", chromedp.KeyEvent(" "))
	b.holds("the second")
}

// Promise: a page that is not visible asks for nothing, and goes on when it is seen again.
func TestAHiddenPageAsksForNothing(t *testing.T) {
	t.Parallel()
	w, holder := held(t)
	b := newTab(t, 1280, 800)
	address := w.ui()
	b.do("open", chromedp.Navigate(address))
	b.sees("live")
	hide := func(hidden bool) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, hidden), nil)
	}
	b.do("hide", hide(true), chromedp.Evaluate(`performance.clearResourceTimings()`, nil))
	holder.kill()
	w.until("held by 1, 0 waiting", "show", "nightly")
	time.Sleep(3 * time.Second) // three times as long as a visible page would wait
	if n := eval[int](b, `performance.getEntriesByType("resource").length`); n > 0 {
		t.Errorf("%d requests of a page that is not visible", n)
	}
	b.do("show", hide(false))
	b.becomes("it goes on", `document.querySelector(".cards .warn") == null`)
}

// Promise: while the backend does not answer, the page says so and keeps what it has shown; then it goes on.
func TestAnOutageIsSaid(t *testing.T) {
	t.Parallel()
	w, _ := held(t)
	server := redistest.Start(t)
	w.url = server.URL() + "?ttl=5m" // the job outlives the outage
	w.start("run", "--note", "on redis", "job", "--", "sleep", "600")
	w.until("on redis", "ls")
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(w.ui()))
	b.sees("on redis")
	b.sees("live")
	server.Pause()
	b.becomes("it says so", `document.getElementById("live").innerText.includes("not up to date")`)
	if text := b.text(); !strings.Contains(text, "on redis") {
		t.Errorf("what was shown has gone: %s", text)
	}
	b.shot("away")
	b.do("a lock, in the outage", chromedp.Navigate(eval[string](b, "location.origin")+"/lock?name=job"))
	b.sees("has not answered")
	server.Resume()
	b.becomes("it goes on", `document.getElementById("live").innerText == "live" && document.body.innerText.includes("on redis")`)
	server.Pause()
	b.becomes("a lock says so, too", `document.getElementById("live").innerText.includes("not up to date")`)
	server.Resume()
	b.becomes("it goes on", `document.getElementById("live").innerText == "live"`)
}

// Promise: the picture of who waits for whom marks a deadlock.
func TestADeadlockIsMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both := func(first, second string) {
		w.start("run", "--pass-url", first, "--", "sh", "-c", fmt.Sprintf("until %s show %s | grep -q holds; do sleep 0.05; done; exec %s run %s -- true", command, second, command, second))
	}
	both("left", "right")
	both("right", "left")
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(w.ui()))
	base := eval[string](b, "location.origin")
	for end := time.Now().Add(busy.Bound(patience)); !regexp.MustCompile(`Deadlock: .*waits for (left|right)`).MatchString(b.text()); {
		if time.Now().After(end) {
			t.Fatalf("no deadlock is shown: %s", b.text())
		}
		b.do("look", chromedp.Navigate(base+"/waits"), chromedp.Sleep(300*time.Millisecond))
	}
	if n := eval[int](b, `document.querySelectorAll("g.arrow.stuck").length`); n != 4 {
		t.Errorf("%d arrows are marked, not two waits for locks and two for jobs", n)
	}
	b.shot("deadlock")
}
