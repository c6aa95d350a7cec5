package httpd

import (
	"context"
	"net/http"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// apiTable is every operation of the API. Its description is made of it, so that
// neither has a line that the other lacks.
func apiTable() []operation {
	return slices.Concat(messageOperations(), turnOperations(), threadOperations(), agentOperations(), accountOperations(),
		hostOperations(), hostInviteOperations(), hostJoinOperations())
}

// sendErrors are those of taking a message.
func sendErrors() []wire.Code {
	return []wire.Code{
		gateway.CodeNotRecallable, gateway.CodeClientThreadIDInUse, gateway.CodeModelUnknown, gateway.CodeModelNotAllowed,
		gateway.CodeInsufficientCredits, wire.CodeNotFound, gateway.CodeClientEventIDInUse, wire.CodePromptTooLarge,
		gateway.CodeRouteUnavailable,
	}
}

func messageOperations() []operation {
	send := func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.SendRequest) (gateway.SendReply, error) {
		return s.cfg.API.Chat.Send(ctx, actor, q)
	}
	return []operation{
		does(operation{
			method: "POST", path: "/messages", id: "sendMessage", status: http.StatusCreated, errors: sendErrors(),
			summary: "Send a message, into a new thread unless threadId names one",
			about:   "Say a message again with the same clientEventId until there is an answer: it is stored and run once. Replays carry replayed. What became of it stands in disposition; a message that is refused for want of credits is a reply too (refused), with the reason in the thread's log.",
		}, send),
		does(operation{
			method: "POST", path: "/threads/{threadId}/messages", id: "sendMessageToThread", status: http.StatusCreated,
			without: []string{"clientThreadId"}, errors: sendErrors(),
			summary: "Send a message into a thread",
			about:   "With mode steer it is handed to the running turn, with mode interrupt it stops that turn and goes first, else it waits its turn.",
		}, send),
		does(operation{
			method: "POST", path: "/threads/{threadId}/recall", id: "recallMessage", status: http.StatusCreated,
			errors:  []wire.Code{gateway.CodeNotRecallable, wire.CodeNotFound, gateway.CodeClientEventIDInUse},
			summary: "Take a waiting message back",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.RecallRequest) (gateway.SendReply, error) {
			return s.cfg.API.Chat.Recall(ctx, actor, q)
		}),
		does(operation{
			method: "POST", path: "/threads/{threadId}/steer", id: "steerMessage",
			errors:  []wire.Code{gateway.CodeNotRecallable, wire.CodeNotFound},
			summary: "Hand a waiting message to the running turn",
			about:   "If that turn ends without taking it, the message waits again, first in line.",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.SteerRequest) (gateway.SendReply, error) {
			return s.cfg.API.Chat.Steer(ctx, actor, q)
		}),
	}
}

func turnOperations() []operation {
	return []operation{
		does(operation{
			method: "GET", path: "/turns/{turnId}", id: "getTurn", errors: []wire.Code{wire.CodeNotFound},
			summary: "Tell all about a turn",
			about:   "With wait the answer comes when the turn is over, or as things stand after so many seconds.",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q turnQuery) (turnReply, error) {
			return s.apiTurn(ctx, actor, q)
		}),
		does(operation{
			method: "POST", path: "/turns/{turnId}/interrupt", id: "interruptTurn", status: http.StatusCreated,
			errors:  []wire.Code{gateway.CodeTurnNotActive, wire.CodeNotFound, gateway.CodeClientEventIDInUse},
			summary: "Stop a turn, as a person does",
			about:   "The log has the interrupt under the id clientEventId, what was shown of the answer, and the end of the turn when the answer is here.",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q interruptRequest) (gateway.SendReply, error) {
			return s.apiInterrupt(ctx, actor, q)
		}),
		does(operation{
			method: "POST", path: "/turns/{turnId}/cancel", id: "cancelTurn",
			errors:  []wire.Code{gateway.CodeTurnNotActive, wire.CodeNotFound},
			summary: "End a turn without an interrupt in the log",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.TurnRequest) (gateway.SendReply, error) {
			return s.cfg.API.Chat.CancelTurn(ctx, actor, q)
		}),
		does(operation{
			method: "GET", path: "/queue", id: "getOrgQueue",
			summary: "List the turns that wait for the org, oldest first",
			about:   "An org runs so many turns at once; further ones wait here. threadId stands on your own alone.",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, _ nothing) (gateway.OrgQueueReply, error) {
			reply, err := s.cfg.API.Chat.OrgQueue(ctx, actor)
			reply.Queue = orEmpty(reply.Queue)
			return reply, err
		}),
	}
}

func threadOperations() []operation {
	return []operation{
		does(operation{
			method: "GET", path: "/threads", id: "listThreads",
			summary: "List threads, newest change first",
			about:   "next, where there is one, is the cursor of the following page.",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.ListRequest) (gateway.ListReply, error) {
			reply, err := s.cfg.API.Chat.List(ctx, actor, q)
			reply.Threads = orEmpty(reply.Threads)
			return reply, err
		}),
		does(operation{
			method: "POST", path: "/threads", id: "createThread", status: http.StatusCreated,
			errors: []wire.Code{
				gateway.CodeClientThreadIDInUse, gateway.CodeModelUnknown, gateway.CodeModelNotAllowed, wire.CodeNotFound,
			},
			summary: "Make an empty thread",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.CreateThreadRequest) (gateway.CreateThreadReply, error) {
			return s.cfg.API.Chat.CreateThread(ctx, actor, q)
		}),
		does(operation{
			method: "GET", path: "/threads/{threadId}", id: "getThread", errors: []wire.Code{wire.CodeNotFound},
			summary: "Tell about a thread",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q threadQuery) (threadReply, error) {
			return s.apiThread(ctx, actor, q)
		}),
		changes(operation{
			method: "PATCH", path: "/threads/{threadId}", id: "renameThread", errors: []wire.Code{wire.CodeNotFound},
			summary: "Set the title of a thread",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.RenameThreadRequest) error {
			return s.cfg.API.Chat.RenameThread(ctx, actor, q)
		}),
		changes(operation{
			method: "DELETE", path: "/threads/{threadId}", id: "deleteThread", errors: []wire.Code{wire.CodeNotFound},
			summary: "Remove a thread; a running turn is cancelled",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.DeleteThreadRequest) error {
			return s.cfg.API.Chat.DeleteThread(ctx, actor, q)
		}),
		changes(operation{
			method: "PUT", path: "/threads/{threadId}/model", id: "setThreadModel",
			errors:  []wire.Code{gateway.CodeModelUnknown, gateway.CodeModelNotAllowed, wire.CodeNotFound},
			summary: "Set the model of a thread; null is the default",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.SetModelRequest) error {
			return s.cfg.API.Chat.SetModel(ctx, actor, q)
		}),
		changes(operation{
			method: "PUT", path: "/threads/{threadId}/read", id: "markThreadRead", errors: []wire.Code{wire.CodeNotFound},
			summary: "Note up to where the owner has read; it never goes back",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.MarkReadRequest) error {
			return s.cfg.API.Chat.MarkRead(ctx, actor, q)
		}),
		does(operation{
			method: "GET", path: "/threads/{threadId}/events", id: "listEvents", errors: []wire.Code{wire.CodeNotFound},
			summary: "Read the log of a thread, oldest first",
			about:   "A page holds at most 500 events and about 256 KiB. While hasMore is true, ask again with the last seqId as sinceSeq; a page with hasMore is never empty. With wait the answer comes once there is an event, or empty after so many seconds.",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q eventsQuery) (eventsReply, error) {
			return s.apiEvents(ctx, actor, q)
		}),
	}
}

func agentOperations() []operation {
	models := []wire.Code{gateway.CodeModelUnknown, gateway.CodeModelNotAllowed}
	return []operation{
		does(operation{
			method: "GET", path: "/agents", id: "listAgents",
			summary: "List the assistants that the account may use, the default one first",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, _ nothing) (gateway.AgentsReply, error) {
			reply, err := s.cfg.API.Chat.Agents(ctx, actor)
			reply.Agents = orEmpty(reply.Agents)
			return reply, err
		}),
		does(operation{
			method: "POST", path: "/agents", id: "createAgent", status: http.StatusCreated, errors: models,
			summary: "Make an assistant",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.CreateAgentRequest) (gateway.AgentReply, error) {
			return s.cfg.API.Chat.CreateAgent(ctx, actor, q)
		}),
		does(operation{
			method: "GET", path: "/agents/{agentId}", id: "getAgent", errors: []wire.Code{wire.CodeNotFound},
			summary: "Tell about an assistant",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.AgentRequest) (gateway.AgentReply, error) {
			return s.cfg.API.Chat.Agent(ctx, actor, q)
		}),
		does(operation{
			method: "PATCH", path: "/agents/{agentId}", id: "updateAgent", errors: append(models, wire.CodeNotFound),
			summary: "Change what is named of an assistant",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.UpdateAgentRequest) (gateway.AgentReply, error) {
			return s.cfg.API.Chat.UpdateAgent(ctx, actor, q)
		}),
		changes(operation{
			method: "DELETE", path: "/agents/{agentId}", id: "deleteAgent", errors: []wire.Code{wire.CodeNotFound},
			summary: "Take an assistant away; its threads go on with the default one",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q gateway.AgentRequest) error {
			return s.cfg.API.Chat.DeleteAgent(ctx, actor, q)
		}),
	}
}

func accountOperations() []operation {
	return []operation{
		does(operation{
			method: "GET", path: "/me", id: "getMe", summary: "Tell who the credential is for, and its limits",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, _ nothing) (meReply, error) {
			return s.apiMe(ctx, actor)
		}),
		does(operation{
			method: "GET", path: "/models", id: "listModels", summary: "List the models that the account may use",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, _ nothing) (modelsReply, error) {
			models, err := s.cfg.API.Models.Models(ctx, actor)
			return modelsReply{orEmpty(models)}, err
		}),
	}
}
