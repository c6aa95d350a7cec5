package main

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// tracesPath is where a collector takes spans over HTTP.
	tracesPath = "/v1/traces"
	// lastExport is how long spans may take to get out at the end.
	lastExport = 3 * time.Second
)

// tracing sends spans to a collector, if the settings name one.
type tracing struct {
	provider *sdktrace.TracerProvider // nil: nobody listens
	log      *slog.Logger
}

// openTracing makes the way to the collector. It connects to nothing yet, and a
// collector that is away keeps nothing up: spans are dropped then.
func openTracing(ctx context.Context, cfg *config, log *slog.Logger) (*tracing, error) {
	t := &tracing{log: log}
	if cfg.Telemetry.OTLPEndpoint == "" {
		return t, nil
	}
	to, err := collectorURL(cfg.Telemetry.OTLPEndpoint)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to))
	if err != nil {
		return nil, err
	}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(loggedExporter{exporter, log}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "fairlead"), attribute.String("service.version", programVersion()))),
	)
	return t, nil
}

// collectorURL adds the path of spans to the address of a collector that has none.
func collectorURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(u.Path, tracesPath) {
		return endpoint, nil
	}
	return u.JoinPath(tracesPath).String(), nil
}

// tracer is for the chat; nil when nobody listens.
func (t *tracing) tracer() trace.Tracer {
	if t == nil || t.provider == nil {
		return nil
	}
	return t.provider.Tracer("github.com/fairlead/fairlead/gateway/chat")
}

// close sends what is left. A collector that does not take it in time is no
// failure of the program.
func (t *tracing) close() {
	if t == nil || t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.WarnContext(ctx, "the last spans were not sent", "error", err)
	}
}

// loggedExporter tells the program's own log of spans that could not be sent; the
// SDK would write to one of its own.
type loggedExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

// ExportSpans sends spans.
func (e loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.WarnContext(ctx, "spans were not sent", "error", err)
	}
	return nil
}
