//go:build linux

package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// busyWorld has locks of each kind, with waiters.
func busyWorld(t *testing.T) *world {
	w := newWorld(t)
	url := w.url
	for i, job := range [][]string{
		{"run", "--note", "backup of the shop", "nightly/backup"},
		{"run", "--note", "backup by hand", "nightly/backup"},
		{"run", "--note", "restore test", "nightly/backup"},
		{"run", "--permits", "3", "--weight", "2", "--note", "train model 4", "pool/gpu"},
		{"run", "--permits", "3", "--weight", "2", "--note", "train model 5", "pool/gpu"},
		{"run", "-s", "--note", "reads the prices", "config/prices"},
		{"run", "-s", "--note", "reads the prices", "config/prices"},
		{"run", "-x", "--note", "writes the prices", "config/prices"},
	} {
		w.url = fmt.Sprintf("%s&owner=web-%d:4711", url, i+1)
		before := strings.Count(w.run("show", "--json", job[len(job)-1]), `"id"`)
		w.start(append(job, "--", "sleep", "600")...)
		for end := time.Now().Add(patience); strings.Count(w.run("show", "--json", job[len(job)-1]), `"id"`) == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%v is not in line", job)
			}
		}
	}
	w.url = url + "&owner=10.0.0.7:2112"
	w.start("elect", "--value", "10.0.0.7:8443", "leader/scheduler", "--", "sleep", "600")
	w.url = url
	w.run("latch", "set", "ready", "3")
	w.run("value", "set", "limit", "17")
	w.run("barrier", "set", "maintenance")
	return w
}

// Promise: every page is readable at 360 pixels, on a laptop and at 4K, in light and dark, without scrolling sideways.
func TestPagesFitEveryScreen(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	address := w.ui("--record", "1s", "--allow-changes")
	b := newTab(t, 1280, 800)
	b.do("open", chromedp.Navigate(address))
	b.sees("nightly/backup")
	base := eval[string](b, "location.origin")
	b.click("a", "nightly/backup")
	b.becomes("a way to evict", `document.querySelector("a[href*='do=evict']")`)
	evict := eval[string](b, `document.querySelector("a[href*='do=evict']").getAttribute("href")`)
	for _, p := range []struct{ name, path, sees string }{
		{"locks", "/", "nightly/backup"},
		{"lock", "/lock?name=nightly%2Fbackup", "restore test"},
		{"waits", "/waits", "nightly/backup"},
		{"longest", "/longest", "Kept waiting by"},
		{"stored", "/stored", "maintenance"},
		{"checks", "/checks", "ok"},
		{"evict", "/" + evict, "type the name"},
	} {
		for _, size := range []struct {
			name          string
			width, height int64
			scheme        string
		}{{"", 1280, 800, "light"}, {"-dark", 1280, 800, "dark"}, {"-phone", 360, 740, "light"}, {"-4k", 3840, 2160, "light"}} {
			b.do(p.name, emulation.SetDeviceMetricsOverride(size.width, size.height, 1, size.width < 500),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: size.scheme}}),
				chromedp.Navigate(base+p.path))
			if size.width < 500 && p.name == "longest" {
				b.sees("Longest waits")
			} else {
				b.sees(p.sees)
			}
			if over := eval[int](b, "document.documentElement.scrollWidth - window.innerWidth"); over > 0 {
				t.Errorf("%s%s: %d pixels are beyond the right side", p.name, size.name, over)
			}
			b.shot(p.name + size.name)
		}
	}
}
