package accounts_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestArgon2id(t *testing.T) {
	t.Parallel()
	a := accounts.NewArgon2id()
	hash, err := a.Hash(t.Context(), goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hash %s", hash)
	}
	for password, want := range map[string]bool{goodPassword: true, goodPassword + "x": false, "": false} {
		if ok, err := a.Verify(t.Context(), password, hash); err != nil || ok != want {
			t.Errorf("%q: %v, %v", password, ok, err)
		}
	}
	if _, err := a.Verify(t.Context(), goodPassword, "no hash"); err == nil {
		t.Error("a damaged hash is no error")
	}
}

func TestArgon2idBoundsWhatRunsAndWaits(t *testing.T) {
	t.Parallel()
	a := accounts.NewArgon2id()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// As many as run and wait, and some more; those that wait are given up as soon
	// as one was turned away.
	const callers = 60
	var wg sync.WaitGroup
	results := make(chan error, callers)
	for range callers {
		wg.Go(func() {
			_, err := a.Hash(ctx, goodPassword)
			if wire.CodeOf(err) == wire.CodeRateLimited {
				cancel()
			}
			results <- err
		})
	}
	wg.Wait()
	close(results)
	refused := 0
	for err := range results {
		if wire.CodeOf(err) == wire.CodeRateLimited {
			refused++
			if wire.AsError(err).RetryAfter <= 0 {
				t.Errorf("%v tells no time to wait", err)
			}
		}
	}
	if refused == 0 || refused > callers {
		t.Errorf("%d of %d callers at once were turned away", refused, callers)
	}
	if _, err := a.Hash(t.Context(), goodPassword); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
