package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// Config is what a Runtime is opened with.
type Config struct {
	Store Store
	// Routes finds the route of a turn. It must be safe for concurrent use; ok is
	// false for a route that is not configured or not ready.
	Routes func(modelProvider, modelProviderID, model string) (route Route, ok bool)
	// StoppedAnswers says what later requests of a thread hold of rounds that were
	// stopped; "" is StoppedInclude.
	StoppedAnswers StoppedAnswers
	// Logger gets how turns end and what no caller can be told; nil discards it.
	Logger *slog.Logger
	// Now stamps what is stored; nil is time.Now.
	Now func() time.Time
}

// Route is how a public model name is served.
type Route struct {
	Client   provider.Client
	Upstream string // the provider's own name of the model
	// BillingSurface and BillingMode stand in turn.completed; the mode is one of
	// metered, subscription, local, unknown. "" leaves the field out, which readers
	// treat as not priced.
	BillingSurface string
	BillingMode    string
}

// StoppedAnswers is a choice of decision 13.
type StoppedAnswers string

// What becomes of a stopped round in later requests: it stands there, marked as
// interrupted, or it does not.
const (
	StoppedInclude StoppedAnswers = "include"
	StoppedOmit    StoppedAnswers = "omit"
)

// Causes with which the context of a turn ends.
var (
	errInterrupted = errors.New("native: turn was interrupted")
	errClosing     = errors.New("native: runtime is closing")
	errUnrecorded  = errors.New("native: what was streamed could not be recorded")
)

// Runtime implements relay.Runtime on a Store.
type Runtime struct {
	store   Store
	release func()
	routes  func(modelProvider, modelProviderID, model string) (Route, bool)
	stopped StoppedAnswers
	log     *slog.Logger
	now     func() time.Time
	owner   string

	// run is the context of everything that outlives a call; stop ends it.
	run  context.Context
	stop context.CancelCauseFunc
	// giveUp is closed when Close waits no longer: what is not stored by then is
	// left to recovery.
	giveUp   chan struct{}
	turns    sync.WaitGroup // engines and recorders
	engines  engines
	watchers watchers
	cooling  cooling

	mu      sync.Mutex
	closing bool          // no turn is started any more
	broken  chan struct{} // closed once a write has an unknown outcome
	cause   error         // set before broken is closed
}

var _ relay.Runtime = (*Runtime)(nil)

// Open takes the store for this runtime, settles what an earlier process left
// live, with its missing turn.completed, and is then ready (RH70). It starts no
// provider request. It fails with relay_owner_busy if the store has another
// runtime, and with relay_store_unavailable if a record cannot be read; the cause
// names the file and what to do, and nothing is deleted.
func Open(ctx context.Context, cfg Config) (*Runtime, error) {
	if cfg.Store == nil || cfg.Routes == nil {
		return nil, errors.New("native: Config needs Store and Routes")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.StoppedAnswers == "" {
		cfg.StoppedAnswers = StoppedInclude
	}
	release, err := cfg.Store.Claim()
	if err != nil {
		return nil, wire.WrapError(wire.CodeOwnerBusy, "Another runtime uses this store.", err)
	}
	r := &Runtime{
		store: cfg.Store, release: release, routes: cfg.Routes, stopped: cfg.StoppedAnswers,
		log: cfg.Logger, now: cfg.Now, giveUp: make(chan struct{}), broken: make(chan struct{}),
	}
	r.run, r.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := r.prepare(ctx); err != nil {
		r.stop(errClosing)
		release()
		return nil, wire.WrapError(wire.CodeStoreUnavailable, "The conversations of this host could not be opened.", err)
	}
	return r, nil
}

func (r *Runtime) prepare(ctx context.Context) (err error) {
	if r.owner, err = r.store.Owner(ctx, wire.NewNativeID("owner")); err != nil {
		return fmt.Errorf("read the owner of the native store: %w", err)
	}
	return r.recover(ctx)
}

// Close stops every running turn, settles it as interrupted by a restart, and
// waits for all goroutines. Once ctx has ended it stops trying to store ends:
// what is not settled is left to the recovery of the next Open, and Close returns
// ctx's cause. The store stays open. Closing twice is allowed.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	first := !r.closing
	r.closing = true
	r.mu.Unlock()
	r.stop(errClosing)
	done := make(chan struct{})
	go func() {
		r.turns.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		if first {
			close(r.giveUp)
		}
		// A client that keeps Client's contract has returned by now.
		<-done
	}
	if first {
		r.release()
	}
	return err
}

// Broken is closed once a write had an outcome that nobody can know. The runtime
// then starts nothing and tells of no turn any more: close it, open the database
// again, and open a new one.
func (r *Runtime) Broken() <-chan struct{} { return r.broken }

// breakDown makes the runtime Broken.
func (r *Runtime) breakDown(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil {
		return
	}
	r.cause = cause
	close(r.broken)
	r.log.Error("the outcome of a write is unknown; open the host again", slog.Any("error", cause))
}

// usable fails once the runtime is closing or broken.
func (r *Runtime) usable() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.cause != nil:
		return unavailable(r.cause)
	case r.closing:
		return wire.NewError(wire.CodeShuttingDown, "This host is shutting down.")
	}
	return nil
}

// failure turns an error of the store into one for a caller, and notes an outcome
// that nobody can know.
func (r *Runtime) failure(err error) error {
	if errors.Is(err, ErrIndeterminate) {
		r.breakDown(err)
	}
	return unavailable(err)
}

func unavailable(cause error) error {
	return wire.WrapError(wire.CodeNativeUnavailable, "The conversation on this host could not be used.", cause)
}
