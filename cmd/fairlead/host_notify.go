package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/fairlead/fairlead/relay/sqldb"
)

// notifier tells systemd how the process is; without systemd it does nothing. What
// cannot be told is nobody's loss.
type notifier struct{}

func (notifier) say(text string) { _, _ = daemon.SdNotify(false, text) }

// ready is said when the host serves, also while its gateway is away: the host tries
// again by itself.
func (n notifier) ready() { n.say(daemon.SdNotifyReady) }

func (n notifier) stopping(why string) { n.say(daemon.SdNotifyStopping + "\nSTATUS=" + why) }

func (n notifier) status(text string) { n.say("STATUS=" + text) }

// watchdog tells, as often as systemd asks for it, that the host's store still takes a
// read: a host that hangs is started again. stop ends it.
func (n notifier) watchdog(ctx context.Context, parts *hostParts) (stop func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every / 2)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				n.alive(ctx, parts, every/2)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (n notifier) alive(ctx context.Context, parts *hostParts, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	read := func(tx *sqldb.Tx) error {
		var one int
		return tx.QueryRow(ctx, `SELECT 1`).Scan(&one)
	}
	if parts.db.View(ctx, read) == nil {
		n.say(daemon.SdNotifyWatchdog)
	}
}
