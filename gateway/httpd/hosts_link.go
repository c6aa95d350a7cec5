package httpd

import (
	"net/http"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// hostsReturn is when a host shall try again that came while the server was leaving.
const hostsReturn = time.Second

// getHostLink serves GET /ws/host. Until the upgrade a refusal is an HTTP answer: 503
// while the server leaves, 401 and 403 for the credential, 403 for a page of another
// site, 409 for a nonce that cannot be used, and 426 or 400, which names the versions
// of both ends, for what is no such link.
func (s *Server) getHostLink(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	select {
	case <-s.leaving:
		e := wire.NewError(wire.CodeShuttingDown, "The gateway is shutting down. Come back in a moment.")
		e.RetryAfter = hostsReturn
		return e
	default:
	}
	admission, err := s.cfg.Hosts.Admit(r.Context(), r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	defer admission.Release()
	if r.Header.Get("Origin") != "" && !s.gate.CheckOrigin(r) { // hosts send none
		s.auditRefusal(r)
		return originRefused()
	}
	s.cfg.HostLink(admission.Context, w, r, admission.Host.ID)
	return nil
}
