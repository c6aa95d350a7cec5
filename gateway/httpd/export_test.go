package httpd

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// RouteLine is a line of the table, for tests that walk all of it.
type RouteLine struct {
	Method, Path string
	Open, Admin  bool
	Host         bool // for relay hosts, by a signature
	Control      bool // for control planes
	Page         bool
}

// Table is every route of the server.
func (s *Server) Table() []RouteLine {
	var lines []RouteLine
	for _, rt := range s.routes {
		lines = append(lines, RouteLine{
			Method: rt.method, Path: rt.path,
			Open: rt.access == accessOpen, Admin: rt.access == accessAdmin, Host: rt.access == accessHost, Control: rt.access == accessControl, Page: rt.kind == kindPage,
		})
	}
	return lines
}

// SafeNext is safeNext.
var SafeNext = safeNext

// SessionCookie is the cookie that a login with the gate sets.
func (g *Gate) SessionCookie(t testing.TB, secret string) *http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	if err := g.setSession(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), secret); err != nil {
		t.Fatal(err)
	}
	return w.Result().Cookies()[0]
}

// FieldWords is fieldWords.
var FieldWords = fieldWords
