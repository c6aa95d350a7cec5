package chat

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Admission is asked three times. Before a message is accepted, without a lock:
// who may not start a turn gets an answer in the thread (AD1–AD8). While it is
// accepted, under the lock of its thread: who lost the right since then is refused
// as if nothing had been sent (AD29, AD30). And once when its turn is made, under
// the lock of its org, which also counts what runs: that may be much later, and
// refuses in the thread again. A suspended org is refused on every route, one
// without credits on metered ones; the turns of a day are counted on every route.

// never is a moment after which nothing started.
const never = math.MaxInt64

// admissionOf reads what an account may do. Every org has an entitlement, so one
// without is a fault.
func admissionOf(ctx context.Context, tx gateway.ChatTx, orgID, accountID string) (gateway.Admission, error) {
	a, err := tx.Admission(ctx, orgID, accountID)
	if errors.Is(err, gateway.ErrNoRow) {
		return a, wire.WrapError(wire.CodeInternal, "", errors.New("the org has no entitlement"))
	}
	return a, err
}

// unentitled tells whether a route may not be used: the first part of a refusal.
func unentitled(a gateway.Admission, billing gateway.Billing) bool {
	return a.Suspended || (billing == gateway.BillingMetered && a.Credits != nil && *a.Credits <= 0)
}

// refusal says why an account may start no turn now, or "".
func (s *Service) refusal(ctx context.Context, tx gateway.ChatTx, orgID, accountID string, billing gateway.Billing) (wire.Code, gateway.Admission, error) {
	a, err := admissionOf(ctx, tx, orgID, accountID)
	switch {
	case err != nil:
		return "", a, err
	case unentitled(a, billing):
		return gateway.CodeInsufficientCredits, a, nil
	case a.OrgDaily == 0 && a.MemberDaily == 0:
		return "", a, nil
	}
	load, err := tx.Load(ctx, orgID, accountID, midnight(s.now()))
	if (a.OrgDaily > 0 && load.OrgStarted >= a.OrgDaily) || (a.MemberDaily > 0 && load.MemberStarted >= a.MemberDaily) {
		return gateway.CodeQuotaExhausted, a, err
	}
	return "", a, err
}

// midnight is when the day began, in UTC.
func midnight(now time.Time) int64 { return now.UTC().Truncate(24 * time.Hour).UnixMilli() }

// stillEntitled is the check of an accepted message under the lock of its thread.
func stillEntitled(ctx context.Context, tx gateway.ChatTx, orgID, accountID string, billing gateway.Billing) error {
	a, err := admissionOf(ctx, tx, orgID, accountID)
	if err == nil && unentitled(a, billing) {
		return wire.NewError(gateway.CodeInsufficientCredits, "Your organisation has no credits left for this model.")
	}
	return err
}

// reject answers a message in its thread: the message itself is superseded, not
// changed, and what to do stands beside it.
func (s *Service) reject(ctx context.Context, u *unit, input gateway.Event, code wire.Code, origin string) error {
	u.afterCommit(func() { s.metrics.refused(code) })
	text := s.guidance(code, origin)
	answer := &gateway.Event{ID: newID(), EventType: gateway.EventOutputError, Error: code, Content: &text}
	s.html.prepare([]*gateway.Event{answer})
	return u.append(ctx, &gateway.Event{
		ID: newID(), EventType: gateway.EventInputRejected, RevokesEventID: input.ID, OriginID: input.OriginID,
		UserMessage: input.UserMessage, Error: code,
	}, answer)
}

// guidance tells in Markdown what a refused sender can do.
func (s *Service) guidance(code wire.Code, origin string) string {
	link := "[Settings → Usage](" + s.usageURL(origin) + ")"
	if code == gateway.CodeQuotaExhausted {
		return "This message was not sent to a model: all turns of today are used up. " +
			"The count starts anew at 00:00 UTC; an administrator can raise the limit. See " + link + "."
	}
	return "This message was not sent to a model: your organisation has no credits left. " +
		"Buy credits, or ask an administrator to, then send it again. See " + link + "."
}

// usageURL is where usage is shown, on the site that the request came through
// (AD6). The path of the public URL goes for every site.
func (s *Service) usageURL(origin string) string {
	const page = "/settings?tab=usage"
	public, err := url.Parse(s.publicURL)
	if err != nil {
		return page
	}
	if origin == "" {
		return strings.TrimSuffix(s.publicURL, "/") + page
	}
	return strings.TrimSuffix(origin, "/") + strings.TrimSuffix(public.Path, "/") + page
}
