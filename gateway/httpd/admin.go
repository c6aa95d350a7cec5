package httpd

import (
	"net/http"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/views/admin"
)

func (s *Server) getAdmin(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	who, err := s.person(r, actor)
	if err != nil {
		return err
	}
	p := admin.Page{
		Site: s.site, Name: who.account.Name, Org: who.org.Name,
		SocketPath: socketPath, LogoutPath: logoutPath, Limit: boardRows,
	}
	if err := s.cfg.Dashboard.fill(r.Context(), actor, &p); err != nil {
		return err
	}
	s.render(w, r, http.StatusOK, p.View())
	return nil
}
