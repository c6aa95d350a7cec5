package httpd

import (
	"context"
	"net/http"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

const checkTimeout = 3 * time.Second

func (s *Server) getSocket(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	s.cfg.Socket.ServeHTTP(w, r)
	return nil
}

// getLive tells that the process answers, and nothing about what it needs.
func (s *Server) getLive(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	s.writeJSON(w, r, http.StatusOK, map[string]bool{"live": true})
	return nil
}

// getReady tells whether the server can do its work, by the names of the checks
// alone: anybody may ask.
func (s *Server) getReady(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	checks := make(map[string]string, len(s.cfg.Checks)+1)
	ready := true
	for _, c := range s.cfg.Checks {
		checks[c.Name] = "ok"
		if err := c.Run(ctx); err != nil {
			checks[c.Name], ready = "failed", false
			s.log.WarnContext(ctx, "not ready", "check", c.Name, "error", err)
		}
	}
	if s.draining.Load() {
		checks["serving"], ready = "shutting_down", false
	}
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	s.writeJSON(w, r, status, map[string]any{"ready": ready, "checks": checks})
	return nil
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	if s.cfg.Metrics == nil {
		return wire.NewError(wire.CodeNotFound, "Metrics are switched off.")
	}
	s.cfg.Metrics.ServeHTTP(w, r)
	return nil
}
