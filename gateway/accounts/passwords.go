package accounts

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/fairlead/fairlead/relay/wire"
)

// Passwords hashes and compares passwords.
type Passwords interface {
	// Hash gives the stored form of a password.
	Hash(ctx context.Context, password string) (string, error)
	// Verify tells whether the password belongs to the hash. It takes the same
	// time for every answer.
	Verify(ctx context.Context, password, hash string) (bool, error)
}

const (
	// hashParallel bounds memory (19 MiB each) and leaves a core to the chats.
	hashParallel = 2
	// hashWaiting is how many may wait for their turn; more are told to come back.
	hashWaiting    = 32
	hashRetryAfter = 2 * time.Second
)

// Argon2id is Passwords with argon2id at 19 MiB, two passes, one lane (OWASP's
// first choice), at most two at a time.
type Argon2id struct {
	params argon2id.Params
	slots  chan struct{}
	queued atomic.Int32
}

// NewArgon2id makes the hasher of the product.
func NewArgon2id() *Argon2id {
	return &Argon2id{
		params: argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32},
		slots:  make(chan struct{}, hashParallel),
	}
}

// Hash implements Passwords. Errors: rate_limited if too many wait.
func (a *Argon2id) Hash(ctx context.Context, password string) (string, error) {
	release, err := a.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	hash, err := argon2id.CreateHash(password, &a.params)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return hash, nil
}

// Verify implements Passwords. Errors: rate_limited if too many wait.
func (a *Argon2id) Verify(ctx context.Context, password, hash string) (bool, error) {
	release, err := a.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	ok, err := argon2id.ComparePasswordAndHash(password, hash)
	if err != nil {
		return false, fmt.Errorf("compare password: %w", err)
	}
	return ok, nil
}

func (a *Argon2id) acquire(ctx context.Context) (release func(), err error) {
	if a.queued.Add(1) > hashWaiting+hashParallel {
		a.queued.Add(-1)
		busy := wire.NewError(wire.CodeRateLimited, "Too many people are logging in at this moment. Try again in a few seconds.")
		busy.RetryAfter = hashRetryAfter
		return nil, busy
	}
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots; a.queued.Add(-1) }, nil
	case <-ctx.Done():
		a.queued.Add(-1)
		return nil, ctx.Err()
	}
}
