package flashsale

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// saleOf makes the result of a sale in which so many pieces were sold, one each millisecond.
func saleOf(name string, stock, sold int) Result {
	r := Result{Strategy: name, Label: name, Stock: stock, Buyers: 100, Workers: 4, Orders: sold, Oversold: max(0, sold-stock), PerWorker: []int{sold, 0, 0, 0}}
	for i := range sold {
		r.times = append(r.times, time.Duration(i+1)*time.Millisecond)
	}
	return r
}

// Promise: the page is well formed, needs nothing from elsewhere, has the table and how to
// read it, and shows in red what was sold beyond the stock, and only that.
func TestThePageShowsEachSale(t *testing.T) {
	results := []Result{saleOf("none", 10, 50), saleOf("local", 10, 11), saleOf("mutex", 10, 10), saleOf("fenced", 1, 0)}
	results[3].Label = "<script>alert(1)</script>"
	var b bytes.Buffer
	if err := WriteHTML(&b, results); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, from := range []string{"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"} {
		if strings.Contains(text, from) {
			t.Errorf("the page has %q: it is to need nothing else", from)
		}
	}
	for _, sentence := range Reading(results) {
		if !strings.Contains(text, sentence) {
			t.Errorf("the page does not say %q", sentence)
		}
	}
	d := xml.NewDecoder(&b)
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	elements, classes := map[string]int{}, map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					classes[e.Name.Local+"."+a.Value]++
				}
			}
		}
	}
	for what, want := range map[string]int{"figure": 4, "svg": 4, "table": 1} {
		if elements[what] != want {
			t.Errorf("%d %s elements, want %d", elements[what], what, want)
		}
	}
	for what, want := range map[string]int{"polyline.stock": 4, "polyline.oversold": 2} {
		if classes[what] != want {
			t.Errorf("%d of %s, want %d", classes[what], what, want)
		}
	}
}

// Promise: the line of the stock goes down to nothing, and the red one from there on.
func TestTheChartOfAnOversoldStock(t *testing.T) {
	c := newChart(saleOf("none", 2, 4))
	if want := "0,0 75,30 150,60 "; c.Left != want || c.Zero != 60 {
		t.Errorf("the stock: got %s and nothing at %g, want %s and 60", c.Left, c.Zero, want)
	}
	if want := "150,60 225,90 300,120 "; c.Over != want {
		t.Errorf("what was oversold: got %s, want %s", c.Over, want)
	}
	// However many are sold, a line has no more steps than can be seen.
	if c := newChart(saleOf("none", 20000, 90000)); len(c.Left)+len(c.Over) > 20000 {
		t.Errorf("the lines have %d bytes", len(c.Left)+len(c.Over))
	}
}
