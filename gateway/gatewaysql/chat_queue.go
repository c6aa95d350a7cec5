package gatewaysql

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
)

const queueColumns = `event_id, origin_id, origin_seq, thread_id, item_rank, mode, now_flag, model, options, prompt, created_at, received_at, origin`

func scanQueue(r rowScanner) (q gateway.QueueRow, err error) {
	var options string
	var now int
	err = r.Scan(&q.EventID, &q.OriginID, &q.OriginSeq, &q.ThreadID, &q.Rank, &q.Mode, &now, &q.Model, &options, &q.Prompt,
		&q.CreatedAt, &q.ReceivedAt, &q.Origin)
	q.Now = now != 0
	if err != nil || options == "" {
		return q, err
	}
	if err := json.Unmarshal([]byte(options), &q.Options); err != nil {
		return q, fmt.Errorf("decode options of %s: %w", q.EventID, err)
	}
	return q, nil
}

func (tx chatTx) Enqueue(ctx context.Context, q gateway.QueueRow) error {
	options := ""
	if q.Options != nil {
		text, err := json.Marshal(q.Options)
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
		options = string(text)
	}
	return tx.exec(ctx, "enqueue", `
		INSERT INTO queue (`+queueColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		q.EventID, q.OriginID, q.OriginSeq, q.ThreadID, q.Rank, q.Mode, flag(q.Now), q.Model, options, q.Prompt, q.CreatedAt, q.ReceivedAt, q.Origin)
}

func (tx chatTx) QueueHead(ctx context.Context, threadID string) (gateway.QueueRow, error) {
	return one("read queue head", tx.QueryRow(ctx, `
		SELECT `+queueColumns+` FROM queue WHERE thread_id = ? ORDER BY item_rank, origin_seq LIMIT 1`, threadID), scanQueue)
}

func (tx chatTx) QueueItem(ctx context.Context, eventID string) (gateway.QueueRow, error) {
	return one("read queue item", tx.QueryRow(ctx,
		`SELECT `+queueColumns+` FROM queue WHERE event_id = ?`, eventID), scanQueue)
}

func (tx chatTx) Dequeue(ctx context.Context, eventID string) (bool, error) {
	n, err := tx.affected(ctx, "dequeue", `DELETE FROM queue WHERE event_id = ?`, eventID)
	return n == 1, err
}

const steersQuery = `
	SELECT ` + queueColumns + ` FROM queue WHERE thread_id = ? AND mode = 'steer' ORDER BY item_rank, origin_seq`

func (tx chatTx) Steers(ctx context.Context, threadID string) ([]gateway.QueueRow, error) {
	return many(ctx, tx, "list steers", scanQueue, steersQuery, threadID)
}

func scanBacklog(r rowScanner) (b gateway.Backlog, err error) {
	return b, r.Scan(&b.Waiting, &b.Oldest)
}

func (tx chatTx) Backlog(ctx context.Context) (gateway.Backlog, error) {
	return one("count what waits", tx.QueryRow(ctx, `SELECT COUNT(*), COALESCE(MIN(created_at), 0) FROM queue`), scanBacklog)
}
