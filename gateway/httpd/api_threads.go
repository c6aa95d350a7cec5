package httpd

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Requests and replies that have no command of their own on a socket.
type (
	threadQuery struct {
		ThreadID string `json:"threadId" validate:"required,uuid"`
	}
	threadReply struct {
		Thread gateway.Thread `json:"thread"`
	}
	eventsQuery struct {
		ThreadID string `json:"threadId" validate:"required,uuid"`
		SinceSeq int64  `json:"sinceSeq,omitempty" validate:"min=0"`
		Limit    int    `json:"limit,omitempty" validate:"omitempty,min=1,max=500"`
		// Wait is in seconds.
		Wait int `json:"wait,omitempty" validate:"min=0,max=60"`
	}
	eventsReply struct {
		Events    []gateway.Event `json:"events"`
		HasMore   bool            `json:"hasMore"`
		LatestSeq int64           `json:"latestSeq"`
	}
	turnQuery struct {
		TurnID string `json:"turnId" validate:"required,uuid"`
		// Wait is in seconds.
		Wait int `json:"wait,omitempty" validate:"min=0,max=60"`
	}
	turnReply struct {
		Turn gateway.Turn `json:"turn"`
	}
	interruptRequest struct {
		TurnID        string `json:"turnId" validate:"required,uuid"`
		ClientEventID string `json:"clientEventId" validate:"required,uuid"`
	}
	modelsReply struct {
		Models []gateway.Model `json:"models"`
	}
	meReply struct {
		Account gateway.Account `json:"account"`
		Org     meOrg           `json:"org"`
		Scopes  []gateway.Scope `json:"scopes"`
		Limits  meLimits        `json:"limits"`
	}
	meOrg struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	meLimits struct {
		BodyBytes         int `json:"bodyBytes"`
		PromptBytes       int `json:"promptBytes"`
		SteerBytes        int `json:"steerBytes"`
		QueuedPerThread   int `json:"queuedPerThread"`
		CommandsPerSecond int `json:"commandsPerSecond"`
		InFlight          int `json:"inFlight"`
	}
)

func (s *Server) apiMe(ctx context.Context, actor gateway.Actor) (meReply, error) {
	account, err := s.cfg.Accounts.Account(ctx, actor)
	if err != nil {
		return meReply{}, err
	}
	org, err := s.cfg.Accounts.Org(ctx, actor)
	return meReply{
		Account: account, Org: meOrg{ID: org.ID, Name: org.Name}, Scopes: orEmpty(actor.Scopes),
		Limits: meLimits{
			BodyBytes: gateway.MaxFrameBytes, PromptBytes: wire.MaxPromptBytes, SteerBytes: wire.MaxSteerBytes,
			QueuedPerThread:   gateway.MaxQueuedPerThread,
			CommandsPerSecond: s.callers.perSecond, InFlight: s.callers.inFlight,
		},
	}, err
}

func (s *Server) apiThread(ctx context.Context, actor gateway.Actor, q threadQuery) (threadReply, error) {
	open, err := s.cfg.API.Chat.Open(ctx, actor, gateway.OpenRequest{ThreadID: q.ThreadID, Window: 1})
	return threadReply{open.Thread}, err
}

// apiEvents gives a page of the log. With Wait it is given once there is an event.
func (s *Server) apiEvents(ctx context.Context, actor gateway.Actor, q eventsQuery) (reply eventsReply, err error) {
	read := func() (done bool, err error) {
		open, err := s.cfg.API.Chat.Open(ctx, actor, gateway.OpenRequest{ThreadID: q.ThreadID, SinceSeq: &q.SinceSeq})
		reply = eventsReply{Events: orEmpty(open.Events), HasMore: open.More, LatestSeq: open.LatestSeq}
		return len(reply.Events) > 0, err
	}
	err = s.await(ctx, actor, gateway.ThreadTopic(q.ThreadID), q.Wait, read)
	if q.Limit > 0 && len(reply.Events) > q.Limit {
		reply.Events, reply.HasMore = reply.Events[:q.Limit], true
	}
	return reply, err
}

// apiTurn gives a turn. With Wait it is given once the turn is over.
func (s *Server) apiTurn(ctx context.Context, actor gateway.Actor, q turnQuery) (reply turnReply, err error) {
	read := func() (done bool, err error) {
		reply.Turn, err = s.cfg.API.Chat.Turn(ctx, actor, gateway.TurnRequest{TurnID: q.TurnID})
		reply.Turn.Usage, reply.Turn.Timeline = orEmpty(reply.Turn.Usage), orEmpty(reply.Turn.Timeline)
		return reply.Turn.Status.Final(), err
	}
	if done, err := read(); done || err != nil || q.Wait == 0 {
		return reply, err
	}
	return reply, s.await(ctx, actor, gateway.ThreadTopic(reply.Turn.ThreadID), q.Wait, read)
}

// apiInterrupt is turn.interrupt; the thread is the turn's.
func (s *Server) apiInterrupt(ctx context.Context, actor gateway.Actor, q interruptRequest) (gateway.SendReply, error) {
	turn, err := s.cfg.API.Chat.Turn(ctx, actor, gateway.TurnRequest{TurnID: q.TurnID})
	if err != nil {
		return gateway.SendReply{}, err
	}
	return s.cfg.API.Chat.Interrupt(ctx, actor, gateway.InterruptRequest{
		ThreadID: turn.ThreadID, TurnID: q.TurnID, ClientEventID: q.ClientEventID,
	})
}

// await reads, and reads again whenever the thread's log grew, until read is done
// or fails, the seconds have passed, or the server is about to go. Who waits with a
// credential that ends is told no more.
func (s *Server) await(ctx context.Context, actor gateway.Actor, topic string, seconds int, read func() (done bool, err error)) error {
	if seconds == 0 {
		_, err := read()
		return err
	}
	ended := make(chan struct{}, 1)
	unwatch := s.cfg.API.Bus.Subscribe(gateway.CredentialTopic(actor.CredentialID), func(gateway.Push) {
		select {
		case ended <- struct{}{}:
		default:
		}
	})
	defer unwatch()
	grown := make(chan struct{}, 1)
	cancel := s.cfg.API.Bus.Subscribe(topic, func(p gateway.Push) {
		if p.Type == "thread.events" {
			select {
			case grown <- struct{}{}:
			default:
			}
		}
	})
	defer cancel()
	over := time.NewTimer(time.Duration(seconds) * time.Second)
	defer over.Stop()
	for last := false; ; {
		done, err := read()
		if done || err != nil || last {
			return err
		}
		select {
		case <-grown:
		case <-over.C:
			last = true
		case <-s.leaving:
			last = true
		case <-ended:
			return unauthorized()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// orEmpty makes a list that is encoded as [], never null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
