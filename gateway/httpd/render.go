package httpd

import (
	"bytes"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/a-h/templ"
)

// render writes a page, or the whole of an error: never half of either.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) {
	var page bytes.Buffer
	if err := c.Render(r.Context(), &page); err != nil {
		s.log.ErrorContext(r.Context(), "a page was not rendered", "request_id", requestID(w), "error", err)
		http.Error(w, "Something went wrong on this server.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w)
}

// redirect sends the browser to a page of this site, with GET.
func (s *Server) redirect(w http.ResponseWriter, r *http.Request, local string) {
	http.Redirect(w, r, s.site.Base+local, http.StatusSeeOther)
}

// localPath is the page that a request is for, below the base path.
func (s *Server) localPath(r *http.Request) string {
	return safeNext(strings.TrimPrefix(r.URL.Path, s.site.Base))
}

// safeNext gives the page to go to after a login: one of this site, and none that
// would lead back here. It holds no query, so it can hold no secret.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.Contains(next, `\`) {
		return "/"
	}
	if !strings.HasPrefix(u.Path, "/") || path.Clean(u.Path) != u.Path || u.EscapedPath() != u.Path {
		return "/"
	}
	for _, away := range []string{"/login", "/logout", "/setup", "/join", "/ws", "/static", "/metrics"} {
		if u.Path == away || strings.HasPrefix(u.Path, away+"/") {
			return "/"
		}
	}
	return u.Path
}
