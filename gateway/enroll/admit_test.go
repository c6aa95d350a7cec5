package enroll_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestRH44_WhoIsNotKnownLearnsNothing: an unknown host, a wrong key, and a header that
// is none are one answer; that a host is revoked learns only who holds its key.
func TestRH44_WhoIsNotKnownLearnsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.joined("h1")
	gone := b.joined("gone")
	b.must(b.Revoke(t.Context(), admin, gone.id))
	b.mayLink(gone, wire.CodeHostRevoked)
	wrong := func(id string) machine { return newMachine(t, id) }
	c := b.Challenge(m.id)
	truncated := m.header(c.GatewayID, c.Nonce)
	var answers []string
	for name, header := range map[string]string{
		"nothing":            "",
		"a bearer":           "Bearer fl_token",
		"the scheme alone":   "Fairlead-Host ",
		"two parts":          "Fairlead-Host h1." + c.Nonce,
		"cut short":          truncated[:len(truncated)-1],
		"unknown host":       wrong("nobody").header(c.GatewayID, b.Challenge("nobody").Nonce),
		"wrong key":          wrong(m.id).header(c.GatewayID, b.Challenge(m.id).Nonce),
		"wrong key, revoked": wrong(gone.id).header(c.GatewayID, b.Challenge(gone.id).Nonce),
		"another gateway":    m.header("gateway_other", b.Challenge(m.id).Nonce),
	} {
		_, err := b.Admit(t.Context(), header)
		if wire.CodeOf(err) != wire.CodeUnauthorized {
			t.Errorf("%s: %v", name, err)
			continue
		}
		answers = append(answers, err.Error())
	}
	for _, a := range answers {
		if a != answers[0] {
			t.Errorf("answers differ: %q, %q", a, answers[0])
		}
	}
	if b.Admitting() != 0 {
		t.Errorf("%d admissions of those who were refused stay", b.Admitting())
	}
}

func TestRH44_ANonceIsUsedOnceWithin60Seconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m, other := b.joined("h1"), b.joined("h2")
	try := func(m machine, nonce string, want wire.Code) {
		t.Helper()
		a, err := b.Admit(t.Context(), m.header(b.Challenge(m.id).GatewayID, nonce))
		b.code(err, want)
		if err == nil {
			a.Release()
		}
	}
	first := b.Challenge(m.id).Nonce
	try(newMachine(t, m.id), first, wire.CodeUnauthorized) // a stranger does not use it up
	try(m, first, "")
	try(m, first, wire.CodeChallengeStale)
	theirs := b.Challenge(other.id).Nonce
	try(m, theirs, wire.CodeChallengeStale)
	try(m, strings.Repeat("A", 75), wire.CodeChallengeStale)
	try(m, b.service(nil).Challenge(m.id).Nonce, wire.CodeChallengeStale) // of the process before

	last, late := b.Challenge(m.id).Nonce, b.Challenge(m.id).Nonce
	b.clock.add(time.Minute - time.Millisecond)
	try(m, last, "")
	b.clock.add(time.Millisecond)
	try(m, late, wire.CodeChallengeStale)
	try(m, first, wire.CodeChallengeStale)
	try(m, last, wire.CodeChallengeStale)
}

func TestRH44_ANonceLetsInOneOfMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.joined("h1")
	c := b.Challenge(m.id)
	header := m.header(c.GatewayID, c.Nonce)
	errs := make([]error, 16)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = b.Admit(t.Context(), header) })
	}
	wg.Wait()
	let := 0
	for _, err := range errs {
		if err == nil {
			let++
			continue
		}
		b.code(err, wire.CodeChallengeStale)
	}
	if let != 1 {
		t.Errorf("%d were let in", let)
	}
}

// TestNoncesAreBounded: strangers that ask for nonces leave no trace, and push no
// host's nonce out; a host that links without end is held up.
func TestNoncesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.joined("h1")
	c := b.Challenge(m.id)
	for range 20_000 {
		b.Challenge("stranger")
	}
	a, err := b.Admit(t.Context(), m.header(c.GatewayID, c.Nonce))
	b.must(err)
	a.Release()
	for range enroll.UsedPerHost - 1 {
		b.mayLink(m, "")
	}
	_, err = b.admit(m)
	b.code(err, wire.CodeRateLimited)
	if wire.AsError(err).RetryAfter <= 0 {
		t.Error("nothing says how long to wait")
	}
	b.clock.add(3 * time.Minute)
	b.mayLink(m, "")
}

// TestAStoreThatFailsIsNoVerdict: a host that is answered 401 or 403 does not come
// back by itself, so that a full disk must not look like that.
func TestAStoreThatFailsIsNoVerdict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.joined("h1")
	b.must(b.store.Close())
	b.mayLink(m, wire.CodeStorageUnavailable)
	_, err := b.Join(t.Context(), address, m.request("fh_x"))
	b.code(err, wire.CodeStorageUnavailable)
}

func TestRH62_ARevocationEndsWhatWasLetIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m, other := b.joined("h1"), b.joined("h2")
	a, err := b.admit(m)
	b.must(err)
	defer a.Release()
	stays, err := b.admit(other)
	b.must(err)
	defer stays.Release()
	b.heard()
	b.links.fail = errors.New("the ledger is away")
	b.must(b.Revoke(t.Context(), admin, m.id)) // it is stored, so it is done
	select {
	case <-a.Context.Done():
	default:
		t.Fatal("the admission of a revoked host stands")
	}
	if cause := context.Cause(a.Context); !errors.Is(cause, enroll.ErrRevoked) {
		t.Errorf("it ended with %v", cause)
	}
	if stays.Context.Err() != nil {
		t.Error("another host's admission ended")
	}
	b.hears("revoke h1")
	b.mayLink(m, wire.CodeHostRevoked)
	if log := b.log.String(); !strings.Contains(log, "the ledger is away") {
		t.Errorf("the fault is not told: %s", log)
	}
	b.code(b.Revoke(t.Context(), admin, m.id), wire.CodeNotFound)
	b.hears()
}

// TestRH62_NoHostSlipsThroughARevocation: of hosts that come while they are revoked
// none keeps an admission.
func TestRH62_NoHostSlipsThroughARevocation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 20 {
		m := b.joined("h1")
		admitted := make(chan enroll.Admission, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(admitted)
			if a, err := b.admit(m); err == nil {
				admitted <- a
			} else if wire.CodeOf(err) != wire.CodeHostRevoked {
				t.Errorf("refused with %v", err)
			}
		})
		wg.Go(func() { b.must(b.Revoke(t.Context(), admin, m.id)) })
		wg.Wait()
		if a, ok := <-admitted; ok {
			if a.Context.Err() == nil {
				t.Error("a host was let in past its revocation")
			}
			a.Release()
		}
	}
	if b.Admitting() != 0 {
		t.Errorf("%d admissions stay", b.Admitting())
	}
}

func TestTheLastUseIsKnownToAMinute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.joined("h1")
	seen := func() time.Time {
		h, err := b.store.Hosts().RelayHost(t.Context(), m.id)
		b.must(err)
		return h.SeenAt
	}
	b.mayLink(m, "")
	first := b.clock.Now()
	if !seen().Equal(first) {
		t.Errorf("seen at %s", seen())
	}
	b.clock.add(59 * time.Second)
	b.mayLink(m, "")
	if !seen().Equal(first) {
		t.Error("a second use within a minute was written")
	}
	b.clock.add(time.Second)
	b.mayLink(m, "")
	if !seen().Equal(b.clock.Now()) {
		t.Errorf("seen at %s, used at %s", seen(), b.clock.Now())
	}
}
