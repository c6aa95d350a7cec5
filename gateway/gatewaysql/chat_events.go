package gatewaysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// payload holds the keys of an event that have no column of their own.
type payload struct {
	OriginID    string               `json:"originId,omitempty"`
	UserMessage *gateway.UserMessage `json:"userMessage,omitempty"`
	Mode        gateway.Mode         `json:"mode,omitempty"`
	Rank        int                  `json:"rank,omitempty"`
	From        *int64               `json:"from,omitempty"`
	To          *int64               `json:"to,omitempty"`
	Error       wire.Code            `json:"error,omitempty"`
	Reason      string               `json:"reason,omitempty"`
	Finish      string               `json:"finish,omitempty"`
	RetryAt     string               `json:"retryAt,omitempty"`
	Marker      string               `json:"marker,omitempty"`
}

func encodePayload(e *gateway.Event) (any, int, error) {
	p := payload{
		OriginID: e.OriginID, UserMessage: e.UserMessage, Mode: e.Mode, Rank: e.Rank, From: e.From, To: e.To,
		Error: e.Error, Reason: e.Reason, Finish: e.Finish, RetryAt: e.RetryAt, Marker: e.Marker,
	}
	if p == (payload{}) {
		return nil, 0, nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, 0, fmt.Errorf("encode event: %w", err)
	}
	return string(text), len(text), nil
}

// eventOverhead stands for the keys of an event that are always there.
const eventOverhead = 256

func (tx chatTx) AppendEvents(ctx context.Context, threadID string, events []*gateway.Event) error {
	last, err := one("number events", tx.QueryRow(ctx, `
		UPDATE threads SET latest_seq = latest_seq + ? WHERE id = ? RETURNING latest_seq`,
		len(events), threadID), scanInt)
	if err != nil {
		return err
	}
	tx.Sequence(threadKey(threadID)) // the statement locked the thread's row
	for i, e := range events {
		e.ThreadID, e.SeqID = threadID, last-int64(len(events)-1-i)
		if err := tx.insertEvent(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (tx chatTx) insertEvent(ctx context.Context, e *gateway.Event) error {
	body, size, err := encodePayload(e)
	if err != nil {
		return err
	}
	turnID := e.TurnID
	if e.EventType == gateway.EventControlInterrupt {
		turnID = e.InterruptsTurnID
	}
	size += eventOverhead
	if e.Content != nil {
		size += len(*e.Content)
	}
	return tx.insert(ctx, "append event", `
		INSERT INTO thread_events (id, thread_id, seq_id, event_type, created_at, turn_id, revokes_event_id, content, payload, size)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		e.ID, e.ThreadID, e.SeqID, e.EventType, e.CreatedAt.UnixMilli(), optionalText(turnID),
		optionalText(e.RevokesEventID), e.Content, body, size)
}

const eventColumns = `id, thread_id, seq_id, event_type, created_at, turn_id, revokes_event_id, content, payload, size`

// sized is an event with what it weighs in a reply.
type sized struct {
	event gateway.Event
	size  int
}

func scanSized(r rowScanner) (s sized, err error) {
	e := &s.event
	var at int64
	var turnID, revokes, content, body sql.NullString
	err = r.Scan(&e.ID, &e.ThreadID, &e.SeqID, &e.EventType, &at, &turnID, &revokes, &content, &body, &s.size)
	if err != nil {
		return s, err
	}
	e.CreatedAt, e.TurnID, e.RevokesEventID = gateway.Millis(at), turnID.String, revokes.String
	if content.Valid {
		e.Content = &content.String
	}
	if e.EventType == gateway.EventControlInterrupt {
		e.TurnID, e.InterruptsTurnID = "", turnID.String
	}
	if !body.Valid {
		return s, nil
	}
	var p payload
	if err := json.Unmarshal([]byte(body.String), &p); err != nil {
		return s, fmt.Errorf("decode event %s: %w", e.ID, err)
	}
	e.OriginID, e.UserMessage, e.Mode, e.Rank, e.From, e.To = p.OriginID, p.UserMessage, p.Mode, p.Rank, p.From, p.To
	e.Error, e.Reason, e.Finish, e.RetryAt, e.Marker = p.Error, p.Reason, p.Finish, p.RetryAt, p.Marker
	return s, nil
}

func scanEvent(r rowScanner) (gateway.Event, error) {
	s, err := scanSized(r)
	return s.event, err
}

func (tx chatTx) Event(ctx context.Context, eventID string) (gateway.Event, error) {
	return one("read event", tx.QueryRow(ctx,
		`SELECT `+eventColumns+` FROM thread_events WHERE id = ?`, eventID), scanEvent)
}

func (tx chatTx) Revoker(ctx context.Context, eventID string) (gateway.Event, error) {
	return one("read revoking event", tx.QueryRow(ctx,
		`SELECT `+eventColumns+` FROM thread_events WHERE revokes_event_id = ? ORDER BY seq_id LIMIT 1`, eventID), scanEvent)
}

func (tx chatTx) Events(ctx context.Context, q gateway.EventQuery) (events []gateway.Event, more bool, err error) {
	query, args := `SELECT `+eventColumns+` FROM thread_events WHERE thread_id = ?`, []any{q.ThreadID}
	switch {
	case !q.Newest:
		query, args = query+` AND seq_id > ? ORDER BY seq_id`, append(args, q.After)
	case q.Before > 0:
		query, args = query+` AND seq_id < ? ORDER BY seq_id DESC`, append(args, q.Before)
	default:
		query += ` ORDER BY seq_id DESC`
	}
	rows, err := tx.Query(ctx, query+` LIMIT ?`, append(args, q.Limit+1)...)
	if err != nil {
		return nil, false, fmt.Errorf("read events: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	room := q.MaxBytes
	for rows.Next() {
		s, err := scanSized(rows)
		if err != nil {
			return nil, false, fmt.Errorf("read events: %w", err)
		}
		room -= s.size
		if len(events) == q.Limit || (room < 0 && len(events) > 0) {
			more = true
			break
		}
		events = append(events, s.event)
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("read events: %w", err)
	}
	if q.Newest {
		slices.Reverse(events)
	}
	return events, more, nil
}

func (tx chatTx) AppendFeed(ctx context.Context, accountID string, e *gateway.FeedEvent) error {
	seq, err := one("number feed event", tx.QueryRow(ctx, `
		INSERT INTO feed_heads (account_id, seq_id) VALUES (?, 1)
		ON CONFLICT (account_id) DO UPDATE SET seq_id = feed_heads.seq_id + 1 RETURNING seq_id`, accountID), scanInt)
	if err != nil {
		return err
	}
	tx.Sequence(accountKey(accountID)) // the statement locked the head's row
	e.SeqID = seq
	return tx.exec(ctx, "append feed event", `
		INSERT INTO thread_feed (account_id, seq_id, kind, thread_id, title, model, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, accountID, seq, e.Kind, e.ThreadID, e.Title, e.Model, e.CreatedAt.UnixMilli())
}

func scanFeed(r rowScanner) (e gateway.FeedEvent, err error) {
	var at int64
	var title, model sql.NullString
	err = r.Scan(&e.SeqID, &e.Kind, &e.ThreadID, &title, &model, &at)
	e.CreatedAt = gateway.Millis(at)
	if title.Valid {
		e.Title = &title.String
	}
	if model.Valid {
		e.Model = &model.String
	}
	return e, err
}

func (tx chatTx) Feed(ctx context.Context, accountID string, after int64, limit int) ([]gateway.FeedEvent, error) {
	return many(ctx, tx, "read feed", scanFeed, `
		SELECT seq_id, kind, thread_id, title, model, created_at FROM thread_feed
		WHERE account_id = ? AND seq_id > ? ORDER BY seq_id LIMIT ?`, accountID, after, limit)
}

func (tx chatTx) FeedHead(ctx context.Context, accountID string) (int64, error) {
	seq, err := one("read feed head", tx.QueryRow(ctx,
		`SELECT seq_id FROM feed_heads WHERE account_id = ?`, accountID), scanInt)
	if errors.Is(err, gateway.ErrNoRow) {
		return 0, nil
	}
	return seq, err
}
