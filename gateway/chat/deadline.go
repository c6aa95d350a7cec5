package chat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Deadlines is what SweepDeadlines has found and done.
type Deadlines struct {
	// Scanned is how many turns in progress are old enough to be warned, Steered
	// how many of them were warned now.
	Scanned, Steered int
}

// SweepDeadlines offers to each turn that has run for Limits.DeadlineWarning a
// warning that its time runs out: once, like a steer, and only where its host
// takes steers (SQ43–SQ46). One failure does not keep it from the rest.
func (s *Service) SweepDeadlines(ctx context.Context) (Deadlines, error) {
	var found Deadlines
	if s.limits.DeadlineWarning < 0 {
		return found, nil
	}
	by := s.millis() - s.limits.DeadlineWarning.Milliseconds()
	for _, lt := range s.lives.all() {
		if status, started, _ := lt.standing(); status == gateway.TurnRunning && started <= by {
			found.Scanned++
		}
	}
	if found.Scanned == 0 {
		return found, nil
	}
	var aged []gateway.TurnRow
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		aged, err = tx.AgedTurns(ctx, by)
		return err
	})
	if err != nil {
		return found, fmt.Errorf("look for turns near their deadline: %w", err)
	}
	var errs []error
	for _, t := range aged {
		warned, err := s.warn(ctx, t)
		if err != nil {
			errs = append(errs, fmt.Errorf("warn turn %s of its deadline: %w", t.ID, err))
		}
		if warned {
			found.Steered++
		}
	}
	return found, errors.Join(errs...)
}

// warn stores the warning of a turn, for its host to ask for.
func (s *Service) warn(ctx context.Context, t gateway.TurnRow) (warned bool, err error) {
	if !s.takesSteers(ctx, t) {
		return false, nil
	}
	err = s.update(ctx, func(u *unit) error {
		warned = false
		t, err := u.lockTurn(ctx, t.ID)
		if err != nil || t.Status != gateway.TurnRunning {
			return err
		}
		err = u.InsertDelivery(ctx, gateway.DeliveryRow{
			ID: newID(), TurnID: t.ID, ThreadID: t.ThreadID, EventID: newID(), Kind: gateway.DeliveryDeadline,
			State: gateway.DeliveryWaiting, Prompt: s.deadlineText(), CreatedAt: u.now,
		})
		if errors.Is(err, gateway.ErrRowExists) {
			return nil
		}
		warned = err == nil
		u.wakes = append(u.wakes, t.RunID)
		return err
	})
	return warned, err
}

// takesSteers tells whether the host of a turn is known to take steers. One that
// is away is asked about again by the next sweep.
func (s *Service) takesSteers(ctx context.Context, t gateway.TurnRow) bool {
	route, err := s.routes.Resolve(ctx, gateway.Actor{AccountID: t.AccountID, OrgID: t.OrgID}, t.Model, gateway.Placement{HostID: t.HostID, Running: true})
	return err == nil && route.HostID == t.HostID && can(route, wire.CapabilitySteer)
}

// waitingWarning gives the warning of a turn that was not offered yet, or nil.
func waitingWarning(ctx context.Context, tx gateway.ChatTx, turnID string) (*gateway.DeliveryRow, error) {
	list, err := tx.Deliveries(ctx, turnID)
	for _, d := range list {
		if d.State == gateway.DeliveryWaiting {
			return &d, err
		}
	}
	return nil, err
}

// deadlineText is what a turn is told when its time runs out (SQ44).
func (s *Service) deadlineText() string {
	limit, used := s.limits.TurnDeadline, s.limits.DeadlineWarning
	return fmt.Sprintf("This turn has a hard limit of %s. %s of it are used, about %s are left.\n\n"+
		"A goal that is being worked towards stays as it is and is carried over to the next turn; if there is none yet, write one down now. "+
		"Leave a hand-over that the work can be resumed from: what was done, where things stand, what was checked, "+
		"what is left to do, and what is in the way. Then finish the turn normally.",
		span(limit), span(used), span(limit-used))
}

// span is a time in hours, minutes or seconds, for people.
func span(d time.Duration) string {
	name := func(n int64, unit string) string {
		if n == 1 {
			return "1 " + unit
		}
		return strconv.FormatInt(n, 10) + " " + unit + "s"
	}
	d = d.Round(time.Second)
	if d < time.Minute {
		return name(int64(d/time.Second), "second")
	}
	var parts []string
	minutes := int64(d.Round(time.Minute) / time.Minute)
	if minutes >= 120 {
		parts, minutes = append(parts, name(minutes/60, "hour")), minutes%60
	}
	if minutes > 0 {
		parts = append(parts, name(minutes, "minute"))
	}
	return strings.Join(parts, " ")
}
