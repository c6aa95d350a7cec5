package link

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// firstPause doubles up to nearPause, and after patience without a link on to
	// farPause (RH50).
	firstPause = 250 * time.Millisecond
	nearPause  = 5 * time.Second
	farPause   = 30 * time.Second
	patience   = time.Minute
	// stoodFor is how long a link stands before it counts as one: a gateway that
	// takes every link and drops it is asked ever more seldom.
	stoodFor = 10 * time.Second
	// maxUnauthorized is how often in a row a host is not known before it believes
	// that: a nonce is lost when the gateway starts anew between two requests.
	maxUnauthorized = 3
)

// KeepOptions are what a host is kept linked with.
type KeepOptions struct {
	// Dial opens the host's end of a link.
	Dial func(context.Context) (Conn, error)
	Host Host
	// Serve are the settings of each link.
	Serve HostOptions
}

// Keep links the host, and again whenever the link is lost, until ctx ends: it then
// gives nil, once the gateway was told and the link has ended. It waits between attempts, longer from failure
// to failure and never two hosts alike, and as long as a gateway that left asked for.
//
// It gives an error when the host is not to come back by itself: a *RefusedError (401
// unauthorized, 403 host_revoked or forbidden), an *EndedError (4401, 4403, 4409) or a
// *RevokedError. All else is in the log and is tried again: a gateway of another version
// may be brought up to date, and what answers 401 or 403 without a code of the gateway's
// is something before it.
func Keep(ctx context.Context, o KeepOptions) error {
	k := &keeper{KeepOptions: o, log: o.Serve.Logger}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	k.lastLinked = time.Now()
	for {
		err := k.once(ctx)
		if k.final(err) {
			return err
		}
		pause := k.pause(err)
		k.report(ctx, err, pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// keeper is owned by the goroutine of Keep; what a link tells it comes before
// ServeHost returns.
type keeper struct {
	KeepOptions
	log *slog.Logger

	failures     int // since a link stood
	unauthorized int // in a row
	lastLinked   time.Time
	linkedAt     time.Time     // of the present link; zero before the welcome
	asked        time.Duration // how long the gateway asked to stay away; 0: it did not
	said         string        // the error that was reported last
}

// once is one attempt and its link.
func (k *keeper) once(ctx context.Context) error {
	k.linkedAt, k.asked = time.Time{}, 0
	conn, err := k.Dial(ctx)
	if err != nil {
		return err
	}
	serve := k.Serve
	serve.Linked = func(w wire.Welcome) {
		k.linkedAt, k.said = time.Now(), ""
		k.log.InfoContext(ctx, "link: linked", "capabilities", w.Capabilities)
		if k.Serve.Linked != nil {
			k.Serve.Linked(w)
		}
	}
	serve.Goaway = func(after time.Duration) {
		k.asked = max(after, firstPause)
		if k.Serve.Goaway != nil {
			k.Serve.Goaway(after)
		}
	}
	return ServeHost(ctx, conn, k.Host, serve)
}

// final tells whether the host is not to come back by itself.
func (k *keeper) final(err error) bool {
	var refused *RefusedError
	var ended *EndedError
	var revoked *RevokedError
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized && refused.Code == wire.CodeUnauthorized {
		k.unauthorized++
		return k.unauthorized >= maxUnauthorized
	}
	k.unauthorized = 0
	switch {
	case errors.As(err, &refused):
		return refused.Status == http.StatusForbidden &&
			(refused.Code == wire.CodeHostRevoked || refused.Code == wire.CodeForbidden)
	case errors.As(err, &ended):
		return ended.Code == CloseUnauthorized || ended.Code == CloseForbidden || ended.Code == CloseSuperseded
	}
	return errors.As(err, &revoked)
}

// pause is how long to wait after a link or an attempt that ended with err.
func (k *keeper) pause(err error) time.Duration {
	now := time.Now()
	if !k.linkedAt.IsZero() {
		k.lastLinked = now
		if now.Sub(k.linkedAt) >= stoodFor {
			k.failures = 0
		}
	}
	wait := k.asked
	var refused *RefusedError
	if errors.As(err, &refused) {
		wait = max(wait, refused.RetryAfter)
	}
	longest := nearPause
	if now.Sub(k.lastLinked) >= patience {
		longest = farPause
	}
	backoff := longest
	if k.failures < 16 {
		backoff = min(firstPause<<k.failures, longest)
	}
	k.failures++
	if wait > 0 {
		// Never sooner than asked, and not all hosts at once.
		return wait + jitter(max(wait/2, backoff))
	}
	return backoff/2 + jitter(backoff)
}

// jitter is a random part of d.
func jitter(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d) + 1))
}

// report says once what goes on for long, and nothing of an end that was asked for.
func (k *keeper) report(ctx context.Context, err error, pause time.Duration) {
	if ctx.Err() != nil || err == nil {
		return
	}
	level := slog.LevelWarn
	if err.Error() == k.said {
		level = slog.LevelDebug
	}
	k.said = err.Error()
	k.log.Log(ctx, level, "link: not linked", "error", err, "again", pause.Round(time.Millisecond))
}
