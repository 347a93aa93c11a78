package collector

// Metric is what is shown. Package metrics calls it interlock_, its name with _ for each dot, and what its unit and
// kind add.
type Metric struct {
	Name string // without "interlock."
	Kind Kind
	Unit string
	Help string
	Of   func(Gauge) float64 // of a gauge
}

// Kind is how a metric is counted.
type Kind string

const (
	Histogram Kind = "histogram"
	Counter   Kind = "counter"
	Level     Kind = "gauge"
)

var (
	wait      = &Metric{"acquire.wait_time", Histogram, "s", "How long acquires took, by their outcome.", nil}
	failures  = &Metric{"acquire.failures", Counter, "{acquire}", "Acquires that ended without the lock, by the reason.", nil}
	use       = &Metric{"hold.use_time", Histogram, "s", "How long locks were held, by how that ended.", nil}
	losses    = &Metric{"losses", Counter, "{lease}", "Leases that ended without being released.", nil}
	overruns  = &Metric{"overruns", Counter, "{lease}", "Leases that were lost though the work under them went on.", nil}
	renewal   = &Metric{"renewal.duration", Histogram, "s", "How long the renewals of leases took.", nil}
	exchanges = &Metric{"exchanges", Counter, "{exchange}", "Exchanges with the backend, as of the last renewal.", nil}
)

// Metrics are in the order in which they are shown.
var Metrics = []*Metric{
	wait, failures, use,
	{"waiters", Level, "{acquire}", "Acquires that wait now.", func(g Gauge) float64 { return float64(g.Waiters) }},
	{"oldest_waiter.age", Level, "s", "For how long the oldest of them has waited.", func(g Gauge) float64 { return g.OldestWaiter.Seconds() }},
	{"holders", Level, "{lease}", "Leases that are held now.", func(g Gauge) float64 { return float64(g.Holders) }},
	{"oldest_holder.age", Level, "s", "For how long the oldest of them has been held.", func(g Gauge) float64 { return g.OldestHolder.Seconds() }},
	losses, overruns, renewal, exchanges,
}
