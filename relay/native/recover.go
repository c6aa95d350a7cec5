package native

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// recover settles every turn that an earlier process left live, through the same
// step as any other end: nobody else will, and a host that only polls the ledger
// would wait for its turn.completed for ever (RH70, RH trap 4). What had been
// streamed and taken stays. A turn whose interrupt was asked for was stopped by a person;
// the others by the restart.
func (r *Runtime) recover(ctx context.Context) error {
	live, err := r.store.LiveTurns(ctx)
	if err != nil {
		return fmt.Errorf("read the turns that were running: %w", err)
	}
	for _, t := range live {
		answer, reasoning, err := r.store.Streamed(ctx, t.ThreadID, t.ID)
		if err != nil {
			return fmt.Errorf("read what turn %s had streamed: %w", t.ID, err)
		}
		steps, err := r.store.Steps(ctx, t.ID)
		if err != nil {
			return fmt.Errorf("read what turn %s had taken: %w", t.ID, err)
		}
		var outcome wire.Outcome
		if !t.InterruptRequested {
			outcome.Error = wire.CodeHostRestarted
		}
		c := Completion{
			ThreadID: t.ThreadID, TurnID: t.ID, Status: relay.NativeInterrupted, EndedAt: r.now(),
			Error: string(outcome.Error), Answer: answer, Reasoning: reasoning,
		}
		c.settle(&outcome, t, steps, provider.Result{}, true)
		if err := r.store.CompleteTurn(ctx, c); err != nil {
			return fmt.Errorf("settle turn %s: %w", t.ID, err)
		}
		r.log.Info("a turn that a restart interrupted was settled", slog.String("turn", t.ID))
	}
	return nil
}
