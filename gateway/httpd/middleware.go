package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	maxBodyBytes = 64 << 10
	bodyTimeout  = 30 * time.Second
	headerID     = "X-Request-Id"
	noRoute      = "none"
)

// recorder remembers the status of an answer. It keeps the methods of the writer
// below reachable through Unwrap, so that sockets can hijack it.
type recorder struct {
	http.ResponseWriter
	status int
}

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	return rec.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// observe gives the request its id, and writes one line about it when it ends.
// The path stands there without its query, which may hold a secret.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := uuid.NewString()
		w.Header().Set(headerID, id)
		rec := &recorder{ResponseWriter: w}
		start := time.Now()
		next.ServeHTTP(rec, r)
		took := time.Since(start)
		route := s.routeOf(r)
		s.log.LogAttrs(r.Context(), accessLevel(rec.status), "request",
			slog.String("request_id", id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.String("route", route), slog.Int("status", rec.status), slog.Duration("took", took),
			slog.String("address", s.gate.ClientAddress(r)))
		if s.cfg.Metrics != nil && rec.status != http.StatusSwitchingProtocols {
			s.cfg.Metrics.ObserveRequest(route, r.Method, rec.status, took)
		}
	})
}

func accessLevel(status int) slog.Level {
	if status >= http.StatusInternalServerError {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// recoverPanic turns a panic into an answer and a line for the operator.
func (s *Server) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			s.log.ErrorContext(r.Context(), "a handler panicked",
				"request_id", requestID(w), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			s.writeError(w, r, s.kindOf(r), wire.AsError(errors.New("panic")))
		}()
		next.ServeHTTP(w, r)
	})
}

// secureHeaders are those of every answer.
func (s *Server) secureHeaders(next http.Handler) http.Handler {
	socket := "ws://" + s.gate.public.Host
	if s.gate.public.Scheme == "https" {
		socket = "wss://" + s.gate.public.Host
	}
	policy := "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
		"connect-src 'self' " + socket + "; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// Not no-referrer: browsers would send "Origin: null" with the site's own
		// forms.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// limitBody bounds a body in size and time. The API takes what a socket takes.
func (s *Server) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			limit := int64(maxBodyBytes)
			if s.inAPI(r) {
				limit = gateway.MaxFrameBytes
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			// A writer without deadlines is one of a test; the size still holds.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// guardOrigin refuses what a page of another site caused (F18). A request to the
// API with a token acts for nobody's cookie, and needs no Origin.
func (s *Server) guardOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		byToken := s.inAPI(r) && r.Header.Get("Authorization") != ""
		if !byToken && !s.gate.origins.check(r) {
			s.auditRefusal(r)
			s.fail(w, r, s.kindOf(r), originRefused())
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) auditRefusal(r *http.Request) {
	// The row is written even if the stranger hangs up.
	ctx := context.WithoutCancel(r.Context())
	if err := s.cfg.Accounts.RecordRefusal(ctx, s.gate.ClientAddress(r), r.Method+" "+s.routeOf(r)); err != nil {
		s.log.ErrorContext(ctx, "a refused origin was not audited", "error", err)
	}
}

func requestID(w http.ResponseWriter) string { return w.Header().Get(headerID) }
