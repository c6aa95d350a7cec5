package socket

import (
	"context"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

type turnFrame struct {
	Head
	gateway.TurnRequest
	// PartialFrom asks for the text that does not stand alone, from there on.
	PartialFrom *int64 `json:"partialFrom,omitempty" validate:"omitempty,min=0"`
}

// turnReply is a page of a turn: PartialNext is where the next one begins.
type turnReply struct {
	Turn        gateway.Turn `json:"turn"`
	PartialNext *int64       `json:"partialNext,omitempty"`
}

// getTurn is turn.get. Text that does not stand comes in pages; what else a turn has
// stands on the first one, before all text if there is no room for both.
//
// Errors: not_found, bad_request (no page begins there), frame_too_large.
func (s *session) getTurn(ctx context.Context, f *turnFrame) (any, error) {
	turn, err := s.srv.cfg.Chat.Turn(ctx, s.actor, f.TurnRequest)
	if err != nil {
		return nil, err
	}
	turn.Usage, turn.Timeline = orEmpty(turn.Usage), orEmpty(turn.Timeline)
	var partial string
	if turn.Partial != nil {
		partial, turn.Partial = *turn.Partial, nil
	}
	var from int64
	if f.PartialFrom != nil {
		from = *f.PartialFrom
		turn.Prompt, turn.Context = "", ""
	}
	switch {
	case from > int64(len(partial)):
		return nil, pageFault("max")
	case from < int64(len(partial)) && !utf8.RuneStart(partial[from]):
		return nil, pageFault("utf8")
	}
	reply := turnReply{Turn: turn}
	if page := leading(partial[from:]); page != "" {
		reply.Turn.Partial = &page
		reply.endAt(from+int64(len(page)), partial)
	}
	if fits(reply) {
		return reply, nil
	}
	reply.Turn.Partial = nil
	reply.endAt(from, partial)
	if fits(reply) && f.PartialFrom == nil {
		return reply, nil
	}
	e := wire.NewError(wire.CodeFrameTooLarge, "This turn fits into no frame. The HTTP API gives it whole.")
	e.Limit = gateway.MaxFrameBytes
	return nil, e
}

// endAt says where the next page begins, if the text goes on there.
func (r *turnReply) endAt(next int64, partial string) {
	r.PartialNext = nil
	if next < int64(len(partial)) {
		r.PartialNext = &next
	}
}

func fits(r turnReply) bool { return len(encode(r)) <= gateway.MaxFrameBytes-replyOverhead }

// leading is the beginning of a text that one reply brings: whole characters, of at
// most twice as many bytes in JSON as a reply has of text.
func leading(text string) string {
	n := min(len(text), gateway.MaxReplyBytes)
	for {
		for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		if len(encode(text[:n])) <= 2*gateway.MaxReplyBytes {
			return text[:n]
		}
		n /= 2
	}
}

func pageFault(rule string) error {
	e := wire.NewError(wire.CodeBadRequest, "A page of the text begins where the one before ended.")
	e.Fields = []wire.Field{{Path: "partialFrom", Rule: rule}}
	return e
}
