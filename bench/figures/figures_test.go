package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No figure of the documents is typed: each table that is marked is what the stored results say.
func TestTablesOfTheDocumentsAreThoseOfTheResults(t *testing.T) {
	files, err := filepath.Glob("../results/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v", err)
	}
	r, err := Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	documents, _ := filepath.Glob("../../docs/*.md")
	pages, _ := filepath.Glob("../../*.md")
	marked := 0
	for _, file := range append(documents, pages...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Into(string(text), r.Tables())
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if want != string(text) {
			t.Errorf("%s has other figures than bench/results: run `go run . table` in bench", file)
		}
		marked += strings.Count(want, "<!-- bench: ")
	}
	if marked == 0 {
		t.Error("no document has a table of results")
	}
	page, err := r.Page()
	shown, _ := os.ReadFile("../../docs/bench.html")
	if err != nil || page != string(shown) {
		t.Errorf("docs/bench.html is not what the results say (%v): run `go run . table` in bench", err)
	}
	if n := strings.Count(page, `class="ours"`); n < 20 {
		t.Errorf("the page shows %d results of Interlock", n)
	}
}

func TestMediansAreReadAsTheyAreWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "raw.jsonl")
	raw := `{"machine":"2 × something"}
{"backend":"redis","workload":"W1","contender":"interlock","ours":true,"repetition":1,"figures":{"pairs/s":1000}}
{"backend":"redis","workload":"W1","contender":"interlock","ours":true,"repetition":2,"figures":{"pairs/s":4000}}
{"backend":"redis","workload":"W1","contender":"interlock","ours":true,"repetition":3,"figures":{"pairs/s":2000}}
{"measurement":"cost","backend":"redis","lease, server":"123"}
`
	if err := os.WriteFile(file, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var medians strings.Builder
	if err := first.Write(&medians); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(medians.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range first.Tables() {
		if second.Tables()[name] != table {
			t.Errorf("%s is\n%s\nfrom the medians, and\n%s\nfrom all", name, second.Tables()[name], table)
		}
	}
	if speed := first.Tables()["speed"]; !strings.Contains(speed, "| Redis | 500 µs |") {
		t.Errorf("2,000 a second are not shown as 500 µs:\n%s", speed)
	}
}

// A quicker machine makes all quicker; what is ours stands out by what the peers did not gain.
func TestComparisonIsToThePeers(t *testing.T) {
	dir := t.TempDir()
	read := func(name string, peer, ours int) *Results {
		file := filepath.Join(dir, name)
		text := fmt.Sprintf(`{"backend":"redis","workload":"W1","contender":"redsync","figures":{"pairs/s":%d}}
{"backend":"redis","workload":"W1","contender":"interlock","ours":true,"figures":{"pairs/s":%d}}
`, peer, ours)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	table := Compare(read("before", 1000, 1000), read("after", 2000, 3000))
	if want := "| redis/W1 | interlock | pairs/s | 1,000 | 3,000 | 3.00 | 1.50 |"; !strings.Contains(table, want) {
		t.Errorf("%q is not in\n%s", want, table)
	}
}

func TestATableWithoutAnEndIsAnError(t *testing.T) {
	for _, text := range []string{"<!-- bench: speed -->\n", "<!-- bench: none -->\n<!-- /bench -->"} {
		if _, err := Into(text, map[string]string{"speed": "x"}); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}
