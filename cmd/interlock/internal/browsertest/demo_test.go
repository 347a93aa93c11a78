//go:build linux

package browsertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/interlock-go/interlock/internal/busy"
)

// demo opens interlock ui --demo in a browser.
func demo(t *testing.T) tab {
	t.Helper()
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(newWorld(t).ui("--demo")))
	b.becomes("a worker holds", inPage(`row(w => w.state.startsWith("holds"))`))
	return b
}

// shown is a worker as the page shows it.
type shown struct{ Name, Process, State, Token, Deadline string }

// inPage is an expression about the page. Row is the first worker that is like that, and result what the page says of
// the write with a token.
func inPage(expression string) string {
	return `(() => {
	const cell = (tr, name) => (tr.querySelector("[data-label=" + name + "]")?.innerText ?? "").trim();
	const row = like => [...document.querySelectorAll("table.workers tbody tr")].map(tr => ({
		name: cell(tr, "Worker").replace(/\s*process.*/s, ""), process: cell(tr, "Worker").match(/process (\d+)/)?.[1] ?? "", state: cell(tr, "State"),
		token: cell(tr, "Token").split(" ")[0], deadline: cell(tr, "Deadline"), bar: Number(tr.querySelector(".bar rect")?.width.animVal.value ?? -1),
	})).find(like) ?? null;
	const result = token => [...document.querySelectorAll("table.writes tbody tr")].filter(tr => cell(tr, "Token").split(" ")[0] === token).map(tr => cell(tr, "Result"))[0] ?? null;
	return ` + expression + `;
})()`
}

// seesWorker waits until a worker is like that, and returns it.
func (b tab) seesWorker(what, like string) (w shown) {
	b.t.Helper()
	for end := time.Now().Add(busy.Bound(patience)); ; time.Sleep(30 * time.Millisecond) {
		var found *shown
		err := chromedp.Run(b, chromedp.Evaluate(inPage("row(w => "+like+")"), &found))
		if err == nil && found != nil {
			b.t.Logf("%s: %+v", what, *found)
			return *found
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: it does not happen (%v); the page has: %s", what, err, b.text())
		}
	}
}

func (b tab) press(button string) {
	b.t.Helper()
	b.do(button, chromedp.Evaluate(`window.sent = false; document.addEventListener("submit", () => sent = true, {once: true})`, nil),
		chromedp.Click(fmt.Sprintf(`//button[normalize-space()=%q]`, button), chromedp.BySearch))
	b.becomes(button+": the page takes the press", "sent")
}

// Promise: a visitor who stops the holder sees its bar run down, another worker hold, and the late write refused.
func TestDemoTheLateWriteOfAStoppedHolderIsRefused(t *testing.T) {
	b := demo(t)
	b.press("Stop the holder")
	w := b.seesWorker("the holder is stopped, and its bar runs down", `w.state === "stopped" && w.token && w.bar > 0 && w.bar < 60`)
	b.do("size", emulation.SetDeviceMetricsOverride(1280, 800, 1, false))
	b.shot("demo-stopped")
	b.seesWorker("another holds after the deadline", fmt.Sprintf(
		`w.state.startsWith("holds") && w.bar > 0 && row(o => o.name === %q && o.token === %q && o.deadline === "over, and it does not know")`, w.Name, w.Token))
	b.becomes("its write is refused", inPage(fmt.Sprintf(`/^refused the stock has seen #\d+; [\d.]+ s after/.test(result(%q))`, w.Token)))
	if seen := eval[string](b, inPage(fmt.Sprintf(`result(%q).match(/#\d+/)[0]`, w.Token))); seen == w.Token {
		t.Errorf("%s is refused, though the stock has seen no larger one", w.Token)
	}
	for _, size := range []struct {
		name          string
		width, height int64
		scheme        string
	}{{"", 1280, 800, "light"}, {"-dark", 1280, 800, "dark"}, {"-phone", 360, 2400, "light"}, {"-4k", 3840, 2160, "light"}} {
		b.do(size.name, emulation.SetDeviceMetricsOverride(size.width, size.height, 1, size.width < 500),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: size.scheme}}))
		b.do("settles", chromedp.Sleep(300*time.Millisecond))
		if over := eval[int](b, "document.documentElement.scrollWidth - window.innerWidth"); over > 0 {
			t.Errorf("demo%s: %d pixels are beyond the right side", size.name, over)
		}
		b.shot("demo" + size.name)
	}
	b.seesWorker("it holds again", fmt.Sprintf(`w.name === %q && w.process === %q && w.state.startsWith("holds")`, w.Name, w.Process))
}

// Promise: the bar shows the time that is left: its animation begins when it is shown.
func TestDemoTheBarBeginsAnewWithEachRenewal(t *testing.T) {
	b := demo(t)
	var began []float64 // of each bar, in the time of its picture
	b.do("looks at ten bars", chromedp.Evaluate(`new Promise(done => {
		const seen = new WeakSet(), began = [];
		new MutationObserver(() => {
			for (const e of document.querySelectorAll(".bar animate")) {
				if (seen.has(e)) continue;
				seen.add(e);
				began.push(e.ownerSVGElement.getCurrentTime());
				if (began.length === 10) done(began);
			}
		}).observe(document.getElementById("main"), {childList: true, subtree: true});
	})`, &began, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	slices.Sort(began)
	if began[5] > 1 { // in a picture that is older, each is later than the one before; a busy machine delays some
		t.Errorf("bars have begun so many seconds before they were shown: %.1f", began)
	}
}

// Promise: a visitor who crashes the holder sees another hold, and the worker come back as another process.
func TestDemoAnotherHoldsAfterACrash(t *testing.T) {
	b := demo(t)
	b.press("Crash the holder")
	w := b.seesWorker("the holder has crashed", `w.state === "crashed"`)
	b.seesWorker("another holds", `w.state.startsWith("holds")`)
	b.sees("the worker crashed")
	b.seesWorker("it comes back", fmt.Sprintf(`w.name === %q && w.process && w.state !== "crashed"`, w.Name))
}

// Promise: a visitor who cuts the holder off sees it learn at its deadline that the lock is lost, another hold, and
// nothing written; it is mended by itself.
func TestDemoAHolderThatIsCutOffDoesNotWrite(t *testing.T) {
	b := demo(t)
	b.press("Cut the holder off")
	w := b.seesWorker("the holder is cut off", `w.state === "cut off, holds, works"`)
	b.seesWorker("it knows that its lease is lost", fmt.Sprintf(`w.name === %q && w.state === "cut off, knows that the lock is lost"`, w.Name))
	b.becomes("another holds", inPage(`row(w => w.state.startsWith("holds") && w.bar > 0)`))
	b.seesWorker("it is mended, and holds again", fmt.Sprintf(`w.name === %q && w.process === %q && w.state.startsWith("holds")`, w.Name, w.Process))
	if result := eval[string](b, inPage(fmt.Sprintf(`result(%q)`, w.Token))); !strings.HasPrefix(result, "not written") {
		t.Errorf("its write: %s", result)
	}
}

// Promise: a button that is pressed for long does what it says, though the page changes meanwhile, and the page is not
// left.
func TestDemoASlowPressCounts(t *testing.T) {
	b := demo(t)
	b.do("marks the page", chromedp.Evaluate(`window.marked = true`, nil))
	var at []float64
	for hit := false; !hit; { // the table may have changed between the look and the press
		at = eval[[]float64](b, `(() => { const r = document.querySelector("table.workers button[value=crash]").getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
		b.do("press", chromedp.MouseEvent(input.MousePressed, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
		if hit = eval[bool](b, `document.querySelector("table.workers button[value=crash]:active") !== null`); !hit {
			b.do("let go elsewhere", chromedp.MouseEvent(input.MouseReleased, 1, 1, chromedp.ButtonLeft, chromedp.ClickCount(1)))
		}
	}
	b.becomes("the page would change", `held`)
	b.do("let go", chromedp.MouseEvent(input.MouseReleased, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
	b.seesWorker("it has crashed", `w.name === "worker 1" && w.state === "crashed"`)
	if !eval[bool](b, `window.marked === true`) {
		t.Error("the page was left")
	}
}

// Promise: without script, the buttons work, and a page that is loaded again shows what has changed.
func TestDemoWorksWithoutScript(t *testing.T) {
	b := demo(t)
	b.do("scripts off", emulation.SetScriptExecutionDisabled(true), chromedp.Reload())
	b.do("press", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(`.strikes button[value=crash]`, chromedp.ByQuery))
		return err
	}))
	b.do("the page comes again, and shows the crash", chromedp.ActionFunc(func(ctx context.Context) error {
		for {
			var text string
			if err := chromedp.Run(ctx, chromedp.Sleep(100*time.Millisecond), chromedp.Reload(), chromedp.Text("table.workers", &text, chromedp.ByQuery)); err != nil || strings.Contains(text, "crashed") {
				return err
			}
		}
	}))
}
