package httpd_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/httpd"
)

func TestRegistryServesWhatItObserved(t *testing.T) {
	t.Parallel()
	var fault atomic.Bool
	registry, err := httpd.NewRegistry("1.2.3", httpd.Gauges{
		SocketsOpen: func() int { return 7 },
		TurnsByState: func(context.Context) (map[gateway.TurnStatus]int, error) {
			if fault.Load() {
				return nil, errors.New("no database")
			}
			return map[gateway.TurnStatus]int{gateway.TurnRunning: 3}, nil
		},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, options{metrics: registry})
	b.people(t)
	token := "Bearer " + b.token(t, adminEmail, gateway.ScopeAdmin)
	br := b.browser(t)
	br.get("/canary/path")
	br.do("CANARY", "/login", nil)
	scrape := func() string {
		t.Helper()
		res := br.get("/metrics", "Accept", "*/*", "Authorization", token)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", res.Status, res.body)
		}
		return res.body
	}
	got := scrape()
	for _, want := range []string{
		`fairlead_http_requests_total{method="GET",route="none",status="404"} 1`,
		`fairlead_http_requests_total{method="other",route="none",status="405"} 1`,
		`fairlead_sockets_open 7`, `fairlead_turns{state="running"} 3`, `fairlead_turns{state="pending"} 0`,
		`fairlead_build_info{version="1.2.3"} 1`, "go_goroutines ", "fairlead_http_request_seconds_bucket",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(strings.ToLower(got), "canary") {
		t.Error("a stranger made a series")
	}
	fault.Store(true)
	if got := scrape(); strings.Contains(got, "fairlead_turns{") || !strings.Contains(got, "fairlead_sockets_open 7") {
		t.Error("what cannot be counted must be absent, and the rest there")
	}
}
