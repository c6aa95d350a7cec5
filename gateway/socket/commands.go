package socket

import (
	"context"
	"maps"
	"runtime/debug"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// command runs one command whose frame is raw. It gives the body of the reply,
// or has sent the reply itself (sent).
type command func(ctx context.Context, s *session, raw []byte) (body any, err error)

// sent is the body of commands that send their reply themselves, since what
// follows it must not overtake it.
type sent struct{}

// The frames of the commands: the head beside the fields of a request.
type (
	bareFrame struct {
		Head
	}
	listFrame struct {
		Head
		gateway.ListRequest
	}
	followFrame struct {
		Head
		gateway.FollowRequest
	}
	openFrame struct {
		Head
		gateway.OpenRequest
	}
	closeFrame struct {
		Head
		ThreadID string `json:"threadId" validate:"required,uuid"`
	}
	createFrame struct {
		Head
		gateway.CreateThreadRequest
	}
	renameFrame struct {
		Head
		gateway.RenameThreadRequest
	}
	deleteFrame struct {
		Head
		gateway.DeleteThreadRequest
	}
	readFrame struct {
		Head
		gateway.MarkReadRequest
	}
	modelFrame struct {
		Head
		gateway.SetModelRequest
	}
	sendFrame struct {
		Head
		gateway.SendRequest
	}
	recallFrame struct {
		Head
		gateway.RecallRequest
	}
	steerFrame struct {
		Head
		gateway.SteerRequest
	}
	interruptFrame struct {
		Head
		gateway.InterruptRequest
	}
	agentFrame struct {
		Head
		gateway.AgentRequest
	}
	createAgentFrame struct {
		Head
		gateway.CreateAgentRequest
	}
	updateAgentFrame struct {
		Head
		gateway.UpdateAgentRequest
	}
)

// table is every command that there is.
func (s *Server) table() map[string]command {
	chat := s.cfg.Chat
	t := map[string]command{
		"ping":           on((*session).ping),
		"models.list":    on((*session).listModels),
		"threads.follow": on((*session).followThreads),
		"thread.open":    on((*session).openThread),
		"thread.close":   on((*session).closeThread),
		"threads.list": on(func(s *session, ctx context.Context, f *listFrame) (any, error) {
			reply, err := chat.List(ctx, s.actor, f.ListRequest)
			reply.Threads = orEmpty(reply.Threads)
			return reply, err
		}),
		"thread.create": on(func(s *session, ctx context.Context, f *createFrame) (any, error) {
			return chat.CreateThread(ctx, s.actor, f.CreateThreadRequest)
		}),
		"thread.rename": on(func(s *session, ctx context.Context, f *renameFrame) (any, error) {
			return nil, chat.RenameThread(ctx, s.actor, f.RenameThreadRequest)
		}),
		"thread.delete": on(func(s *session, ctx context.Context, f *deleteFrame) (any, error) {
			return nil, chat.DeleteThread(ctx, s.actor, f.DeleteThreadRequest)
		}),
		"thread.read": on(func(s *session, ctx context.Context, f *readFrame) (any, error) {
			return nil, chat.MarkRead(ctx, s.actor, f.MarkReadRequest)
		}),
		"thread.model": on(func(s *session, ctx context.Context, f *modelFrame) (any, error) {
			return nil, chat.SetModel(ctx, s.actor, f.SetModelRequest)
		}),
		"message.send": on(func(s *session, ctx context.Context, f *sendFrame) (any, error) {
			f.ReceivedAt = s.received
			return chat.Send(ctx, s.actor, f.SendRequest)
		}),
		"message.recall": on(func(s *session, ctx context.Context, f *recallFrame) (any, error) {
			return chat.Recall(ctx, s.actor, f.RecallRequest)
		}),
		"message.steer": on(func(s *session, ctx context.Context, f *steerFrame) (any, error) {
			return chat.Steer(ctx, s.actor, f.SteerRequest)
		}),
		"turn.interrupt": on(func(s *session, ctx context.Context, f *interruptFrame) (any, error) {
			return chat.Interrupt(ctx, s.actor, f.InterruptRequest)
		}),
		"turn.get": on((*session).getTurn),
	}
	maps.Copy(t, s.agentTable())
	if s.cfg.Admin != nil {
		t["admin.follow"] = on((*session).followAdmin)
	}
	return t
}

// agentTable is the part of the table about assistants.
func (s *Server) agentTable() map[string]command {
	chat := s.cfg.Chat
	return map[string]command{
		"agents.list": on(func(s *session, ctx context.Context, _ *bareFrame) (any, error) {
			reply, err := chat.Agents(ctx, s.actor)
			reply.Agents = fitAgents(orEmpty(reply.Agents))
			return reply, err
		}),
		"agent.get": on(func(s *session, ctx context.Context, f *agentFrame) (any, error) {
			return chat.Agent(ctx, s.actor, f.AgentRequest)
		}),
		"agent.create": on(func(s *session, ctx context.Context, f *createAgentFrame) (any, error) {
			return chat.CreateAgent(ctx, s.actor, f.CreateAgentRequest)
		}),
		"agent.update": on(func(s *session, ctx context.Context, f *updateAgentFrame) (any, error) {
			return chat.UpdateAgent(ctx, s.actor, f.UpdateAgentRequest)
		}),
		"agent.delete": on(func(s *session, ctx context.Context, f *agentFrame) (any, error) {
			return nil, chat.DeleteAgent(ctx, s.actor, f.AgentRequest)
		}),
	}
}

// replyOverhead is more than what a reply has beside its body.
const replyOverhead = 4 << 10

// fitAgents leaves out of assistants that fit into no frame what agent.get gives of
// each.
func fitAgents(list []gateway.Agent) []gateway.Agent {
	for _, leaveOut := range []func(*gateway.Agent){
		func(a *gateway.Agent) { a.Instructions = "" },
		func(a *gateway.Agent) { a.Description = "" },
	} {
		if len(encode(list)) <= gateway.MaxFrameBytes-replyOverhead {
			return list
		}
		for i := range list {
			leaveOut(&list[i])
		}
	}
	return list
}

// on makes a command of a function over its decoded frame. The validator learns
// the frame's type at once, not with the first client.
func on[F any](run func(s *session, ctx context.Context, f *F) (any, error)) command {
	_ = wire.ValidateStruct(new(F))
	return func(ctx context.Context, s *session, raw []byte) (any, error) {
		f := new(F)
		if err := decode(raw, f); err != nil {
			return nil, err
		}
		return run(s, ctx, f)
	}
}

// execute runs a command and answers it. A command that panics is answered with
// internal and takes nobody else down.
func (s *session) execute(ctx context.Context, id string, run command, raw []byte) {
	defer s.survive(id)
	s.touch(ctx)
	body, err := run(ctx, s, raw)
	if err != nil {
		s.push(s.failure(ctx, id, err))
		return
	}
	if _, done := body.(sent); !done {
		s.push(s.reply(id, body))
	}
}

// survive is deferred where a command runs.
func (s *session) survive(id string) {
	if fault := recover(); fault != nil {
		s.log.Error("socket: a command panicked", "panic", fault, "stack", string(debug.Stack()))
		s.push(encodeError(id, wire.NewError(wire.CodeInternal, internalMessage)))
	}
}

const touchEvery = time.Hour

// touch tells that the credential is in use. The upgrade did so too, for the
// first hour.
func (s *session) touch(ctx context.Context) {
	now := s.srv.now()
	if s.srv.cfg.Touch == nil || now.Sub(s.touched) < touchEvery {
		return
	}
	s.touched = now
	if err := s.srv.cfg.Touch(ctx, s.actor.CredentialID); err != nil {
		s.log.WarnContext(ctx, "socket: a credential's use was not noted", "error", err)
	}
}

const internalMessage = "Something went wrong on this server."

// reply encodes a reply; one that fits into no frame is an error of this server.
func (s *session) reply(id string, body any) []byte {
	frame := encodeReply(id, body)
	if len(frame) == 0 || len(frame) > gateway.MaxFrameBytes {
		s.log.Error("socket: a reply does not fit into a frame", "bytes", len(frame))
		return encodeError(id, wire.NewError(wire.CodeInternal, internalMessage))
	}
	return frame
}

// failure encodes an error. What the client must not see is in the log alone.
func (s *session) failure(ctx context.Context, id string, err error) []byte {
	e := wire.AsError(err)
	if e.Code == wire.CodeInternal || e.Code == wire.CodeStorageUnavailable {
		s.log.ErrorContext(ctx, "socket: a command failed", "error", err)
	}
	return encodeError(id, e)
}

func (s *session) ping(context.Context, *bareFrame) (any, error) {
	return struct {
		ServerTime gateway.Time `json:"serverTime"`
	}{gateway.Time{Time: s.srv.now()}}, nil
}

func (s *session) listModels(ctx context.Context, _ *bareFrame) (any, error) {
	models, err := s.srv.cfg.Routes.Models(ctx, s.actor)
	return struct {
		Models []gateway.Model `json:"models"`
	}{orEmpty(models)}, err
}

// orEmpty makes a list that is encoded as [], never null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
