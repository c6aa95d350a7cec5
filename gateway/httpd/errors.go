package httpd

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views"
)

// refuse answers somebody whom a route does not let in. A person without a
// session is shown where to sign in.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, rt route, err error) {
	if errors.Is(err, errOrigin) {
		s.auditRefusal(r)
	}
	if wire.CodeOf(err) == wire.CodeUnauthorized && rt.kind == kindPage && wantsPage(r) {
		to := s.site.Base + "/login"
		if next := s.localPath(r); next != "/" {
			to += "?next=" + url.QueryEscape(next)
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	s.fail(w, r, rt.kind, err)
}

// fail answers with an error, and logs it if the caller cannot help it.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, k kind, err error) {
	e := wire.AsError(err)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		e = wire.NewError(wire.CodeFrameTooLarge, "This is more than the server takes at once.")
		e.Limit = int(tooLarge.Limit)
	}
	if gateway.HTTPStatus(e.Code) >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.ErrorContext(r.Context(), "a request failed", "request_id", requestID(w), "error", err)
	}
	s.writeError(w, r, k, e)
}

// writeError writes the one shape of an error, or its page.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, k kind, e *wire.Error) {
	s.writeErrorAs(w, r, k, gateway.HTTPStatus(e.Code), e)
}

func (s *Server) writeErrorAs(w http.ResponseWriter, r *http.Request, k kind, status int, e *wire.Error) {
	setRetryAfter(w, e)
	if k == kindPage && wantsPage(r) {
		s.errorPage(w, r, status, e)
		return
	}
	s.writeJSON(w, r, status, map[string]any{"error": e.Body()})
}

func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.log.ErrorContext(r.Context(), "an answer was not encoded", "request_id", requestID(w), "error", err)
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"Something went wrong on this server."}}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

func (s *Server) errorPage(w http.ResponseWriter, r *http.Request, status int, e *wire.Error) {
	p := views.ErrorPage{
		Site: s.site, Status: status, Title: errorTitle(status), Cure: e.Message, RequestID: requestID(w),
	}
	if status == http.StatusNotFound {
		p.RequestID = ""
	}
	s.render(w, r, status, p.View())
}

func errorTitle(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "That did not work"
	case http.StatusUnauthorized:
		return "Log in first"
	case http.StatusForbidden:
		return "Not allowed"
	case http.StatusNotFound:
		return "Nothing here"
	case http.StatusMethodNotAllowed:
		return "Not possible here"
	case http.StatusRequestEntityTooLarge:
		return "Too large"
	case http.StatusTooManyRequests:
		return "One moment"
	case http.StatusServiceUnavailable:
		return "Not available right now"
	}
	return "Something went wrong"
}

func setRetryAfter(w http.ResponseWriter, e *wire.Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
}

// wantsPage tells whether a person is looking.
func wantsPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// orNothing answers what the table does not hold: not_found, or the methods that
// the path has.
func (s *Server) orNothing() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := s.mux.Handler(r)
		if pattern != "" {
			s.mux.ServeHTTP(w, r)
			return
		}
		// The mux knows the methods, but tells them only in an answer of its own.
		probe := &discard{header: make(http.Header)}
		h.ServeHTTP(probe, r)
		e := wire.NewError(wire.CodeNotFound, "There is no such page. The link may be old, or mistyped.")
		if probe.status != http.StatusMethodNotAllowed {
			s.fail(w, r, s.kindOf(r), e)
			return
		}
		w.Header().Set("Allow", probe.header.Get("Allow"))
		e = wire.NewError(wire.CodeBadRequest, "This address cannot be used that way.")
		s.writeErrorAs(w, r, s.kindOf(r), http.StatusMethodNotAllowed, e)
	})
}

// discard is an answer of which only status and header are read.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

func forbidden() error {
	return wire.NewError(wire.CodeForbidden, "Your account may not see this. An admin can.")
}

// routeOf is the path of the route that a request is for, without the base path.
func (s *Server) routeOf(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	if pattern == "" {
		return noRoute
	}
	_, path, _ := strings.Cut(pattern, " ")
	return strings.TrimPrefix(path, s.site.Base)
}
