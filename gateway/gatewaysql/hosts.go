package gatewaysql

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/sqldb"
)

// Hosts is the store of relay hosts on other machines (migration 0003).
type Hosts struct{ db *sqldb.DB }

var _ gateway.HostStore = Hosts{}

// Hosts is the part of the store that package enroll needs.
func (s *Store) Hosts() Hosts { return Hosts{db: s.db} }

// hostError keeps the answers of a gateway.HostStore as they are.
func hostError(err error) error {
	for _, told := range []error{gateway.ErrInviteSpent, gateway.ErrHostKey, gateway.ErrHostRevoked} {
		if errors.Is(err, told) {
			return err
		}
	}
	return storeError(err)
}

func (s Hosts) update(ctx context.Context, fn func(tx chatTx) error) error {
	return hostError(s.db.Update(ctx, func(tx *sqldb.Tx) error { return fn(chatTx{tx}) }))
}

func (s Hosts) view(ctx context.Context, fn func(tx chatTx) error) error {
	return hostError(s.db.View(ctx, func(tx *sqldb.Tx) error { return fn(chatTx{tx}) }))
}

// GatewayID gives the id of the installation; the first call makes it fresh.
func (s Hosts) GatewayID(ctx context.Context, fresh string) (id string, err error) {
	err = s.update(ctx, func(tx chatTx) error {
		if err := tx.exec(ctx, "name the gateway",
			`INSERT INTO gateway_identity (id, gateway_id) VALUES (1, ?) ON CONFLICT DO NOTHING`, fresh); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT gateway_id FROM gateway_identity WHERE id = 1`).Scan(&id)
	})
	return id, err
}

const hostColumns = `id, name, public_key, labels, version, joined_by, joined_at, seen_at, drained_at, revoked_at`

func scanHost(row rowScanner) (gateway.RelayHost, error) {
	var h gateway.RelayHost
	var key, labels string
	var joined, seen, drained, revoked int64
	err := row.Scan(&h.ID, &h.Name, &key, &labels, &h.Version, &h.JoinedBy, &joined, &seen, &drained, &revoked)
	if err != nil {
		return h, err
	}
	if h.PublicKey, err = base64.RawURLEncoding.DecodeString(key); err != nil {
		return h, fmt.Errorf("key of host %s: %w", h.ID, err)
	}
	h.Labels = strings.Fields(labels)
	h.JoinedAt, h.SeenAt = fromMillis(joined), fromMillis(seen)
	h.DrainedAt, h.RevokedAt = fromMillis(drained), fromMillis(revoked)
	return h, nil
}

func keyText(key []byte) string { return base64.RawURLEncoding.EncodeToString(key) }

// RelayHosts lists all hosts in the order in which they joined.
func (s Hosts) RelayHosts(ctx context.Context) (list []gateway.RelayHost, err error) {
	err = s.view(ctx, func(tx chatTx) error {
		rows, err := tx.Query(ctx, `SELECT `+hostColumns+` FROM relay_hosts ORDER BY joined_at, id`)
		if err != nil {
			return err
		}
		list, err = collect(rows, func(row scanner) (gateway.RelayHost, error) { return scanHost(row) })
		return err
	})
	return list, err
}

// RelayHost reads one host.
func (s Hosts) RelayHost(ctx context.Context, id string) (h gateway.RelayHost, err error) {
	err = s.view(ctx, func(tx chatTx) (err error) {
		h, err = readHost(ctx, tx, id)
		return err
	})
	return h, err
}

func readHost(ctx context.Context, tx chatTx, id string) (gateway.RelayHost, error) {
	return one("host", tx.QueryRow(ctx, `SELECT `+hostColumns+` FROM relay_hosts WHERE id = ?`, id), scanHost)
}

// ChangeHost alters a host that is not revoked. The first write holds its row, so
// that of two changes at once neither is lost.
func (s Hosts) ChangeHost(ctx context.Context, id string, alter func(*gateway.RelayHost), a gateway.AuditEntry) (h gateway.RelayHost, err error) {
	err = s.update(ctx, func(tx chatTx) error {
		held, err := tx.affected(ctx, "hold host", `UPDATE relay_hosts SET revoked_at = 0 WHERE id = ? AND revoked_at = 0`, id)
		if err != nil {
			return err
		}
		if held == 0 {
			return fmt.Errorf("host: %w", gateway.ErrNoRow)
		}
		if h, err = readHost(ctx, tx, id); err != nil {
			return err
		}
		before := h
		alter(&h)
		h.ID, h.PublicKey = before.ID, before.PublicKey
		if sameHost(before, h) {
			return nil
		}
		if err := tx.exec(ctx, "change host",
			`UPDATE relay_hosts SET name = ?, labels = ?, drained_at = ?, revoked_at = ? WHERE id = ?`,
			h.Name, strings.Join(h.Labels, " "), toMillis(h.DrainedAt), toMillis(h.RevokedAt), id); err != nil {
			return err
		}
		return insertAudit(ctx, tx.Tx, a)
	})
	return h, err
}

func sameHost(a, b gateway.RelayHost) bool {
	return a.Name == b.Name && slices.Equal(a.Labels, b.Labels) && a.DrainedAt.Equal(b.DrainedAt) && a.RevokedAt.Equal(b.RevokedAt)
}

// SawHost notes when a host was linked, and its version.
func (s Hosts) SawHost(ctx context.Context, id, version string, at time.Time) error {
	return s.update(ctx, func(tx chatTx) error {
		return tx.exec(ctx, "host was seen", `UPDATE relay_hosts
			SET seen_at = ?, version = CASE WHEN ? = '' THEN version ELSE ? END WHERE id = ? AND seen_at < ?`,
			toMillis(at), version, version, id, toMillis(at))
	})
}

// JoinHost spends an invitation and stores its host in one transaction; see
// gateway.HostStore. The write to the invitation's row decides who of two wins.
func (s Hosts) JoinHost(ctx context.Context, secretHash string, h gateway.RelayHost, now time.Time, a gateway.AuditEntry) (joined gateway.RelayHost, err error) {
	err = s.update(ctx, func(tx chatTx) error {
		invite, err := spendInvite(ctx, tx, secretHash, h, now)
		if errors.Is(err, gateway.ErrNoRow) {
			joined, err = joinedBefore(ctx, tx, secretHash, h)
			return err
		}
		if err != nil {
			return err
		}
		if joined, err = storeHost(ctx, tx, invite, h, now); err != nil {
			return err
		}
		a.OrgID = invite.OrgID
		return insertAudit(ctx, tx.Tx, a)
	})
	return joined, err
}

// joinedBefore gives the host that the invitation was spent for, to that host alone.
func joinedBefore(ctx context.Context, tx chatTx, secretHash string, h gateway.RelayHost) (gateway.RelayHost, error) {
	_, err := one("spent invitation", tx.QueryRow(ctx, `SELECT 1 FROM host_invites
		WHERE secret_hash = ? AND used_at > 0 AND host_id = ? AND host_key = ?`, secretHash, h.ID, keyText(h.PublicKey)), scanInt)
	if errors.Is(err, gateway.ErrNoRow) {
		return h, gateway.ErrInviteSpent
	}
	if err != nil {
		return h, err
	}
	known, err := readHost(ctx, tx, h.ID)
	if err != nil {
		return h, err
	}
	if !known.RevokedAt.IsZero() || !bytes.Equal(known.PublicKey, h.PublicKey) {
		return h, gateway.ErrInviteSpent
	}
	return known, nil
}

// storeHost inserts a host, or takes up the row of a revoked one whose key is new.
func storeHost(ctx context.Context, tx chatTx, invite gateway.HostInvite, h gateway.RelayHost, now time.Time) (gateway.RelayHost, error) {
	if invite.Name != "" {
		h.Name = invite.Name
	}
	if len(invite.Labels) > 0 {
		h.Labels = invite.Labels
	}
	stored, err := one("store host", tx.QueryRow(ctx, `INSERT INTO relay_hosts AS known
		(id, name, public_key, labels, version, joined_by, joined_at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, public_key = excluded.public_key, labels = excluded.labels,
			version = excluded.version, joined_by = excluded.joined_by, joined_at = excluded.joined_at,
			seen_at = 0, drained_at = 0, revoked_at = 0
		WHERE known.revoked_at > 0 AND known.public_key <> excluded.public_key
		RETURNING `+hostColumns,
		h.ID, h.Name, keyText(h.PublicKey), strings.Join(h.Labels, " "), h.Version, invite.CreatedBy, toMillis(now)), scanHost)
	if !errors.Is(err, gateway.ErrNoRow) {
		return stored, err
	}
	known, err := readHost(ctx, tx, h.ID)
	switch same := bytes.Equal(known.PublicKey, h.PublicKey); {
	case err != nil:
		return known, err
	case !same:
		return known, gateway.ErrHostKey
	case !known.RevokedAt.IsZero():
		return known, gateway.ErrHostRevoked
	}
	return known, nil
}
