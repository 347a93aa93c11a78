package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/metrics"
)

const rules = "../docs/prometheus/interlock.rules.yml"

// program is a server with both pages. Something has happened for each figure; lose loses one more lease.
func program(t *testing.T) (page string, lose func()) {
	t.Helper()
	m := metrics.New(metrics.Names(func(name string) string { return name }), metrics.Backend("memory"))
	w := memlock.NewWorld()
	c, faults := client(t, w, m.Option(), interlock.TTL(time.Second))
	other, _ := client(t, w)
	lost, err := c.Mutex("lost").Acquire(t.Context())
	ok(t, err)
	_, cancel := lost.Bind(t.Context()) // work that overruns
	t.Cleanup(cancel)
	faults.Expire()
	<-lost.Done()
	ok(t, c.Mutex("done").Do(t.Context(), func(context.Context) error { return nil }))
	_, err = other.Mutex("held").Acquire(t.Context())
	ok(t, err)
	_, _ = c.Mutex("held").TryAcquire(t.Context())
	_, err = c.Mutex("own").Acquire(t.Context())
	ok(t, err)
	waiting, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	go c.Mutex("own").Acquire(waiting)
	go c.Mutex("held").Acquire(waiting)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.ServeHTTP(w, r)
		var queues []interlock.Queue
		for q, err := range other.Admin().Queues(r.Context(), "") {
			if err == nil {
				queues = append(queues, q)
			}
		}
		_ = metrics.WriteQueues(w, queues)
	}))
	t.Cleanup(s.Close)
	ok(t, testserver.Until(func() (bool, error) { return strings.Contains(text(m), "interlock_renewal"), nil }))
	return s.URL, func() {
		lease, err := c.Mutex("lost").Acquire(t.Context())
		ok(t, err)
		faults.Expire()
		<-lease.Done()
	}
}

// prometheus scrapes a page five times a second, under the alert rules.
func prometheus(t *testing.T, page string) *testserver.Server {
	t.Helper()
	at, err := url.Parse(page)
	ok(t, err)
	alerts, err := filepath.Abs(rules)
	ok(t, err)
	var s *testserver.Server
	s = testserver.NewServer(t.TempDir(), testserver.Program{
		Name: "Prometheus",
		Configure: func() error {
			return os.WriteFile(s.Path("prometheus.yml"), fmt.Appendf(nil, `
global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs: [{job_name: test, static_configs: [{targets: [%q]}]}]
`, alerts, at.Host), 0o600)
		},
		Command: func() (*exec.Cmd, error) {
			return exec.Command("prometheus", "--config.file="+s.Path("prometheus.yml"),
				"--storage.tsdb.path="+s.Path("data"), "--web.listen-address="+s.Addr), nil
		},
		Ready: func(int) (bool, error) {
			answer, err := http.Get("http://" + s.Addr + "/-/ready")
			if err != nil {
				return false, nil
			}
			defer answer.Body.Close()
			return answer.StatusCode == http.StatusOK, nil
		},
	})
	testserver.Start(t, s)
	return s
}

// ask returns the series that an expression has.
func ask(t *testing.T, addr, expr string) (series []map[string]string) {
	t.Helper()
	answer, err := http.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(expr))
	ok(t, err)
	defer answer.Body.Close()
	var said struct {
		Error string
		Data  struct {
			Result []struct{ Metric map[string]string }
		}
	}
	body, err := io.ReadAll(answer.Body)
	ok(t, err)
	if err := json.Unmarshal(body, &said); err != nil || said.Error != "" {
		t.Fatalf("%s: %v %s", expr, err, said.Error)
	}
	for _, r := range said.Data.Result {
		series = append(series, r.Metric)
	}
	return series
}

// expressions are those of the panels and the variables of the dashboard.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/grafana/interlock.json")
	ok(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	ok(t, json.Unmarshal(text, &dashboard))
	filled := strings.NewReplacer("$job", ".*", "$__rate_interval", "1m", "$__range", "1m")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, filled.Replace(target.Expr))
		}
	}
	for _, variable := range regexp.MustCompile(`"label_values\((.*), \w+\)"`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.ReplaceAll(variable[1], `\"`, `"`))
	}
	if len(all) < 20 {
		t.Fatalf("the dashboard has %d expressions", len(all))
	}
	return all
}

// A real Prometheus has an answer to each expression of the dashboard, reads the alert rules, and has alerts of a loss
// and of an overrun.
func TestTheDashboardAndTheRulesFitPrometheus(t *testing.T) {
	t.Parallel()
	page, lose := program(t)
	s := prometheus(t, page)
	for _, expr := range expressions(t) {
		s.Check("wait for "+expr, testserver.Until(func() (bool, error) { return len(ask(t, s.Addr, expr)) > 0, nil }))
	}
	lose()
	for _, name := range []string{"InterlockLost", "InterlockOverran"} {
		expr := fmt.Sprintf("ALERTS{alertname=%q}", name)
		s.Check("wait for "+expr, testserver.Until(func() (bool, error) { return len(ask(t, s.Addr, expr)) > 0, nil }))
	}
	if up := ask(t, s.Addr, "up == 1"); len(up) != 1 {
		t.Errorf("the page is refused: %v", up)
	}
}

// Each metric that the dashboard and the rules name is one that there is, and each that there is, is in one of them and
// in the documents.
func TestTheDashboardNamesWhatThereIs(t *testing.T) {
	url, _ := program(t)
	answer, err := http.Get(url)
	ok(t, err)
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	ok(t, err)
	lint(t, string(page))
	there := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)`).FindAllSubmatch(page, -1) {
		there[string(found[1])] = true
	}
	alerts, err := os.ReadFile(rules)
	ok(t, err)
	words := regexp.MustCompile(`interlock_\w+`)
	shown := words.FindAllString(strings.Join(append(expressions(t), string(alerts)), "\n"), -1)
	for i, name := range shown {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			shown[i] = strings.TrimSuffix(shown[i], suffix)
		}
		if !there[shown[i]] {
			t.Errorf("there is no %s", name)
		}
	}
	doc, err := os.ReadFile("../docs/telemetry.md")
	ok(t, err)
	for name := range there {
		if !slices.Contains(shown, name) {
			t.Errorf("%s is neither in the dashboard nor in the rules", name)
		}
		if !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("%s is not in docs/telemetry.md", name)
		}
	}
	if len(there) != 17 {
		t.Errorf("%d metrics", len(there))
	}
}

func TestTheRulesAlert(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", "testdata/interlock.rules_test.yml"}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
