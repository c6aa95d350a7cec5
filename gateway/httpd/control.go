package httpd

import (
	"net/http"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// getControl is the socket of control planes.
func (s *Server) getControl(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	if s.cfg.Control == nil {
		return wire.NewError(wire.CodeNotFound, "Control planes are not served here.")
	}
	s.cfg.Control.ServeHTTP(w, r)
	return nil
}
