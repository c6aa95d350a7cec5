package httpd

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlead/fairlead/gateway"
)

// Gauges are the states that are read on demand. They must answer quickly and be
// safe for concurrent use; nil ones are left out.
type Gauges struct {
	// SocketsOpen counts the open sockets.
	SocketsOpen func() int
	// TurnsByState counts the turns that are not final, and those that ended since
	// the program started where the source knows them.
	TurnsByState func(ctx context.Context) (map[gateway.TurnStatus]int, error)
	// HostsOnline counts the linked hosts.
	HostsOnline func() int
}

// Registry is Metrics in the form that Prometheus reads. It owns one private
// registry: the Go runtime, the process, HTTP requests by route, Gauges, and what
// other parts of the program give to Registerer.
//
// Labels hold routes of the table and states, never ids, paths or names, so that
// the number of series stays fixed.
type Registry struct {
	handler  http.Handler
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

const scrapeTimeout = 2 * time.Second

// NewRegistry makes the registry. The logger gets what a scrape could not read.
func NewRegistry(version string, g Gauges, logger *slog.Logger) (*Registry, error) {
	m := &Registry{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_http_requests_total", Help: "Answered HTTP requests, sockets excluded.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairlead_http_request_seconds", Help: "Time to answer HTTP requests, sockets excluded.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fairlead_build_info", Help: "The running version; always 1.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	list := []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.seconds, build,
	}
	list = append(list, gauges(g, logger)...)
	m.registry = prometheus.NewRegistry()
	for _, c := range list {
		if err := m.registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError),
	})
	return m, nil
}

func gauges(g Gauges, logger *slog.Logger) []prometheus.Collector {
	var list []prometheus.Collector
	count := func(name, help string, read func() int) {
		if read == nil {
			return
		}
		list = append(list, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(read()) }))
	}
	count("fairlead_sockets_open", "Open WebSockets of browsers and programs.", g.SocketsOpen)
	count("fairlead_hosts_online", "Relay hosts with a link.", g.HostsOnline)
	if g.TurnsByState != nil {
		list = append(list, &turnCollector{read: g.TurnsByState, log: logger, desc: prometheus.NewDesc(
			"fairlead_turns", "Turns by state.", []string{"state"}, nil)})
	}
	return list
}

// turnCollector reads the turns once per scrape.
type turnCollector struct {
	read func(ctx context.Context) (map[gateway.TurnStatus]int, error)
	log  *slog.Logger
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *turnCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector. Every state that can run is there,
// also at 0, so that alerts can tell zero from absent.
func (c *turnCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	turns, err := c.read(ctx)
	if err != nil {
		c.log.ErrorContext(ctx, "turns were not counted", "error", err)
		return
	}
	counts := map[gateway.TurnStatus]int{gateway.TurnQueued: 0, gateway.TurnPending: 0, gateway.TurnRunning: 0}
	for state, n := range turns {
		counts[state] = n
	}
	for state, n := range counts {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), string(state))
	}
}

// Registerer takes up the metrics of other parts of the program. Their labels keep
// to what is said at Registry.
func (m *Registry) Registerer() prometheus.Registerer { return m.registry }

// ServeHTTP answers a scrape.
func (m *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// ObserveRequest counts one answered request.
func (m *Registry) ObserveRequest(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// knownMethod keeps strangers from making series.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
