package chat

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Bounds of the rounds that a context tells of.
const (
	maxRounds     = 50
	maxRoundBytes = 8_000
)

// Titles of the part of a context that tells of earlier rounds (CG15): all of
// them where the model has no history of the thread, those that its history lacks
// where it has one.
const (
	titleAllRounds  = "# Web chat context\n\nEarlier rounds of this thread, oldest first. You have no other record of them.\n"
	titleLostRounds = "# Incomplete rounds\n\nRounds of this thread that your history lacks, oldest first.\n"
	omittedRounds   = "\n(Earlier rounds are left out.)\n"
)

// titleInstructions begins the instructions of an assistant; to those who may not
// read them hiddenInstructions stands there.
const (
	titleInstructions  = "\n# Assistant instructions\n\n"
	hiddenInstructions = "(Only the owner of the assistant and admins may read them.)\n"
)

// round is one earlier turn of a thread as a context tells of it.
type round struct {
	turnID          string
	status          gateway.TurnStatus
	user, assistant string
}

func (r round) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nRUN_STATUS: %s\nUser: %s\n", r.status, clip(r.user, maxRoundBytes))
	if r.assistant != "" {
		fmt.Fprintf(&b, "Assistant: %s\n", clip(r.assistant, maxRoundBytes))
	}
	return b.String()
}

// addContext tells the model of a turn what it should know beside the prompt
// (SQ6, SQ22, CG15, CG72): on the command, and on the turn, where its owner can
// read it. remembers says whether the model has a native history of the thread.
// Hosts without turn_context get it as an element before the prompt.
func (s *Service) addContext(ctx context.Context, u *unit, t *gateway.TurnRow, cmd *wire.PromptRequest, route gateway.Route, remembers bool) error {
	own := can(route, wire.CapabilityTurnContext)
	room := wire.MaxContextBytes
	if !own {
		room = min(room, wire.MaxPromptBytes-len(cmd.Prompt)-len(contextElement("")))
	}
	text, err := s.contextOf(ctx, u, *t, remembers, room)
	if err != nil {
		return err
	}
	if !own {
		text = strings.TrimSpace(clip(escapeContext(text), room))
	}
	if text == "" {
		return nil
	}
	t.Context = text
	if own {
		cmd.Context = &text
	} else {
		cmd.Prompt = contextElement(text) + cmd.Prompt
	}
	return nil
}

// contextOf writes the context of a turn in at most room bytes. What does not fit
// is left out from the end of the list: rounds, instructions, then all of it.
func (s *Service) contextOf(ctx context.Context, u *unit, t gateway.TurnRow, remembers bool, room int) (string, error) {
	th, err := u.Thread(ctx, t.ThreadID)
	if err != nil {
		return "", err
	}
	a, err := threadAgent(ctx, u, t.OrgID, t.AccountID, th.AgentID)
	if err != nil {
		return "", err
	}
	text := "# Surface\n\nThis conversation takes place in Fairlead's web chat. Answers are shown there as Markdown.\n\n" +
		"# Thread\n\nThread: " + th.ID + "\nAssistant: " + a.Name + "\n"
	if len(text) > room {
		return "", nil
	}
	if a.Instructions != "" {
		text += clip(titleInstructions+a.Instructions+"\n", room-len(text))
	}
	read := u.stage(stageSessionContext, nested)
	rounds, title, err := earlierRounds(ctx, u, t, remembers)
	if err != nil {
		return "", err
	}
	if remembers || len(rounds) > 0 {
		read()
	}
	return text + tellRounds(title, rounds, room-len(text)), nil
}

// readableContext is the context of a turn as the actor may read it: without the
// instructions of an assistant that is not theirs to change.
func readableContext(ctx context.Context, tx gateway.ChatTx, actor gateway.Actor, th gateway.ThreadRow, t gateway.TurnRow) (string, error) {
	begin := strings.Index(t.Context, titleInstructions)
	if begin < 0 {
		return t.Context, nil
	}
	a, err := tx.Agent(ctx, th.OrgID, th.AgentID)
	if err != nil && !errors.Is(err, gateway.ErrNoRow) {
		return "", err
	}
	// Without it the instructions are the default assistant's.
	taken := a.DeletedAt != 0 || (a.Private && a.OwnerID != th.AccountID)
	if err == nil && !taken && mayChange(a, actor) {
		return t.Context, nil
	}
	begin += len(titleInstructions)
	end := len(t.Context)
	for _, title := range []string{titleAllRounds, titleLostRounds} {
		for _, after := range []string{"", omittedRounds} {
			if at := strings.LastIndex(t.Context, "\n"+title+after+"\nRUN_STATUS: "); at > begin {
				end = min(end, at)
			}
		}
	}
	return t.Context[:begin] + hiddenInstructions + t.Context[end:], nil
}

// tellRounds tells of rounds in at most room bytes, the newest ones if not all
// fit.
func tellRounds(title string, rounds []round, room int) string {
	room -= len(title) + 1 + len(omittedRounds)
	var told []string
	for _, r := range slices.Backward(rounds) {
		text := r.String()
		if room -= len(text); room < 0 {
			break
		}
		told = append(told, text)
	}
	if len(told) == 0 {
		return ""
	}
	slices.Reverse(told)
	if len(told) < len(rounds) {
		title += omittedRounds
	}
	return "\n" + title + strings.Join(told, "")
}

// earlierRounds gives the rounds that the model must be told of, oldest first,
// and the title of their part.
func earlierRounds(ctx context.Context, u *unit, t gateway.TurnRow, remembers bool) ([]round, string, error) {
	if !remembers {
		rounds, err := loggedRounds(ctx, u, t)
		return rounds, titleAllRounds, err
	}
	turns, err := u.UnknownTurns(ctx, t.ThreadID, maxRounds)
	if err != nil {
		return nil, "", err
	}
	var rounds []round
	for _, old := range slices.Backward(turns) {
		prompt, err := promptOf(ctx, u, old)
		if err != nil {
			return nil, "", err
		}
		rounds = append(rounds, round{turnID: old.ID, status: old.Status, user: prompt})
	}
	return rounds, titleLostRounds, nil
}

// loggedRounds reads the newest rounds of a thread from its log. A message without
// a turn is in none of them: it waits, or was recalled or refused (CG80).
func loggedRounds(ctx context.Context, u *unit, t gateway.TurnRow) ([]round, error) {
	events, _, err := u.Events(ctx, gateway.EventQuery{
		ThreadID: t.ThreadID, Newest: true, Limit: 8 * maxRounds, MaxBytes: 4 * wire.MaxContextBytes,
	})
	if err != nil {
		return nil, err
	}
	var rounds []round
	of := func(turnID string) *round {
		i := slices.IndexFunc(rounds, func(r round) bool { return r.turnID == turnID })
		if i < 0 {
			return &round{} // it began before the window
		}
		return &rounds[i]
	}
	for _, e := range events {
		switch {
		case e.TurnID == "" || e.TurnID == t.ID:
		case e.EventType == gateway.EventInputPrompt && of(e.TurnID).turnID == "":
			rounds = append(rounds, round{turnID: e.TurnID, user: textOfMessage(e.UserMessage)})
		case e.EventType == gateway.EventInputPrompt:
			of(e.TurnID).user += "\n\n" + textOfMessage(e.UserMessage)
		case e.EventType == gateway.EventOutputMessage || e.EventType == gateway.EventOutputPartial:
			of(e.TurnID).assistant += contentOf(e)
		default:
			if status, over := statusOf(e.EventType); over {
				of(e.TurnID).status = status
			}
		}
	}
	rounds = slices.DeleteFunc(rounds, func(r round) bool { return r.status == "" })
	return rounds[max(0, len(rounds)-maxRounds):], nil
}

// statusOf gives the status that a terminal event stands for.
func statusOf(e gateway.EventType) (gateway.TurnStatus, bool) {
	switch e {
	case gateway.EventTurnCompleted:
		return gateway.TurnCompleted, true
	case gateway.EventTurnFailed:
		return gateway.TurnFailed, true
	case gateway.EventTurnCancelled:
		return gateway.TurnCancelled, true
	case gateway.EventTurnTimeout:
		return gateway.TurnTimeout, true
	}
	return "", false
}

// promptOf gives the prompt of a turn as its person wrote it (SQ6); "" if its
// thread was deleted.
func promptOf(ctx context.Context, tx gateway.ChatTx, t gateway.TurnRow) (string, error) {
	e, err := tx.Event(ctx, t.InputEventID)
	if errors.Is(err, gateway.ErrNoRow) {
		return "", nil
	}
	return textOfMessage(e.UserMessage), err
}

// textOfMessage is the text of a stored message, which was checked by render.
func textOfMessage(m *gateway.UserMessage) string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func contentOf(e gateway.Event) string {
	if e.Content == nil {
		return ""
	}
	return *e.Content
}

// clip cuts text between characters to at most n bytes, with a mark if there is
// room for one.
func clip(text string, n int) string {
	const mark = "…"
	if len(text) <= n {
		return text
	}
	keep := max(0, n-len(mark))
	for keep > 0 && !utf8.RuneStart(text[keep]) {
		keep--
	}
	if keep == 0 {
		return ""
	}
	return text[:keep] + mark
}

// contextElement puts a context before the prompt of a host that has no place of
// its own for it.
func contextElement(text string) string { return "<context>\n" + text + "\n</context>\n\n" }

var closingContext = regexp.MustCompile(`(?i)<(\s*/\s*context)`)

// escapeContext keeps what people wrote from ending the element early.
func escapeContext(text string) string {
	return closingContext.ReplaceAllString(text, "&lt;$1")
}
