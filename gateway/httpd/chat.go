package httpd

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/chat"
)

const (
	socketPath = "/ws"
	logoutPath = "/logout"
	// firstThreads is how many threads the page brings along; the rest comes over
	// the socket.
	firstThreads = 50
)

func (s *Server) getChat(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	var thread *gateway.Thread
	if raw := r.PathValue("id"); raw != "" {
		id, err := uuid.Parse(raw)
		if err != nil || id.String() != raw {
			return noThread()
		}
		found, err := s.cfg.Chats.Open(r.Context(), actor, gateway.OpenRequest{ThreadID: raw, Window: 1})
		if wire.CodeOf(err) == wire.CodeNotFound {
			return noThread()
		}
		if err != nil {
			return err
		}
		thread = &found.Thread
	}
	list, err := s.cfg.Chats.List(r.Context(), actor, gateway.ListRequest{Limit: firstThreads})
	if err != nil {
		return err
	}
	who, err := s.person(r, actor)
	if err != nil {
		return err
	}
	p, err := s.newChatPage(who, thread, list)
	if err != nil {
		return err
	}
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) newChatPage(who person, thread *gateway.Thread, list gateway.ListReply) (chat.Page, error) {
	if list.Threads == nil {
		list.Threads = []gateway.Thread{}
	}
	threads, err := json.Marshal(list)
	if err != nil {
		return chat.Page{}, fmt.Errorf("encode threads: %w", err)
	}
	p := chat.Page{
		Site: s.site, SocketPath: socketPath, LogoutPath: logoutPath, Threads: threads,
		Account: chat.Account{ID: who.account.ID, Name: who.account.Name, Org: who.org.Name, Admin: who.admin},
	}
	if thread != nil {
		p.ThreadID = thread.ID
		if thread.Title != nil {
			p.Title = *thread.Title
		}
	}
	return p, nil
}

// person is who is logged in, as pages show them.
type person struct {
	account gateway.Account
	org     gateway.Org
	admin   bool
}

func (s *Server) person(r *http.Request, actor gateway.Actor) (person, error) {
	acc, err := s.cfg.Accounts.Account(r.Context(), actor)
	if err != nil {
		return person{}, err
	}
	org, err := s.cfg.Accounts.Org(r.Context(), actor)
	return person{account: acc, org: org, admin: actor.May(gateway.ScopeAdmin)}, err
}

// noThread is the answer to a thread that does not exist, and to one of somebody
// else.
func noThread() error {
	return wire.NewError(wire.CodeNotFound, "There is no such thread. It may have been deleted, or the link is not yours.")
}
