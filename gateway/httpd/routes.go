package httpd

import (
	"net/http"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// access says who may use a route.
type access int

const (
	accessOpen    access = iota // anybody
	accessChat                  // a credential with the scope chat
	accessAdmin                 // a credential with the scope admin
	accessControl               // a token with the scope relay:control
	accessHost                  // a relay host, which the handler tells by its signature
)

// kind says how a route's refusals look.
type kind int

const (
	kindPage kind = iota // a page for a person, JSON for a program
	kindAPI              // JSON always
)

// route is one line of the table. Method and path make its pattern below the
// base path.
type route struct {
	method string
	path   string
	access access
	kind   kind
	serve  func(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error
}

// table is every route that there is.
func (s *Server) table() []route {
	return append([]route{
		{"GET", "/{$}", accessChat, kindPage, s.getChat},
		{"GET", "/chats/{id}", accessChat, kindPage, s.getChat},
		{"GET", "/settings", accessChat, kindPage, s.getSettings},
		{"POST", "/settings", accessChat, kindPage, s.postSettings},
		{"GET", "/admin", accessAdmin, kindPage, s.getAdmin},
		{"GET", "/admin/hosts", accessAdmin, kindPage, s.getHosts},
		{"POST", "/admin/hosts", accessAdmin, kindPage, s.postHosts},
		{"GET", "/admin/hosts/{id}", accessAdmin, kindPage, s.getHost},
		{"POST", "/admin/hosts/{id}", accessAdmin, kindPage, s.postHost},
		{"GET", "/admin/bindings", accessAdmin, kindPage, s.getBindings},
		{"GET", "/admin/bindings/{id}", accessAdmin, kindPage, s.getBinding},
		{"POST", "/admin/bindings/{id}", accessAdmin, kindPage, s.postBinding},
		{"GET", "/admin/members", accessAdmin, kindPage, s.getMembers},
		{"POST", "/admin/members", accessAdmin, kindPage, s.postMembers},

		{"GET", "/setup", accessOpen, kindPage, s.getSetup},
		{"POST", "/setup", accessOpen, kindPage, s.postSetup},
		{"GET", "/join", accessOpen, kindPage, s.getJoin},
		{"POST", "/join", accessOpen, kindPage, s.postJoin},
		{"GET", "/login", accessOpen, kindPage, s.getLogin},
		{"POST", "/login", accessOpen, kindPage, s.postLogin},
		{"GET", "/login/check", accessOpen, kindPage, s.getLoginCheck},
		{"POST", "/logout", accessOpen, kindPage, s.postLogout},

		{"GET", "/ws", accessChat, kindAPI, s.getSocket},
		{"GET", wire.ControlPath, accessControl, kindAPI, s.getControl},
		{"GET", wire.PathHostLink, accessHost, kindAPI, s.getHostLink},

		{"GET", "/static/", accessOpen, kindAPI, s.getStatic},
		{"GET", "/livez", accessOpen, kindAPI, s.getLive},
		{"GET", "/readyz", accessOpen, kindAPI, s.getReady},
		{"GET", "/metrics", accessAdmin, kindAPI, s.getMetrics},
	}, s.apiRoutes()...)
}

// build puts the table behind the middleware, the outermost last.
func (s *Server) build() http.Handler {
	for _, rt := range s.routes {
		s.mux.Handle(rt.method+" "+s.site.Base+rt.path, s.serveRoute(rt))
	}
	if s.site.Base != "" {
		s.mux.Handle("GET "+s.site.Base, http.RedirectHandler(s.site.Base+"/", http.StatusMovedPermanently))
		s.mux.Handle("GET /{$}", http.RedirectHandler(s.site.Base+"/", http.StatusFound))
	}
	h := s.orNothing()
	h = s.guardOrigin(h)
	h = s.limitBody(h)
	h = s.secureHeaders(h)
	h = s.recoverPanic(h)
	h = s.observe(h)
	return h
}

// serveRoute lets in whom the table names and answers with the handler's error.
func (s *Server) serveRoute(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var actor gateway.Actor
		if rt.access != accessOpen && rt.access != accessHost {
			var err error
			if actor, err = s.admit(r, rt.access); err != nil {
				s.refuse(w, r, rt, err)
				return
			}
		}
		if err := rt.serve(w, r, actor); err != nil {
			s.fail(w, r, rt.kind, err)
		}
	})
}

func (s *Server) admit(r *http.Request, need access) (gateway.Actor, error) {
	actor, err := s.gate.Authenticate(r)
	if err != nil {
		return gateway.Actor{}, err
	}
	scope := gateway.ScopeChat
	switch need {
	case accessAdmin:
		scope = gateway.ScopeAdmin
	case accessControl:
		scope = gateway.ScopeControl
	}
	if !actor.May(scope) {
		return gateway.Actor{}, forbidden()
	}
	return actor, nil
}
