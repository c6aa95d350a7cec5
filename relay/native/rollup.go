package native

import (
	"context"
	"sync"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// maxPending is how much text may wait for the recorder before the engine
	// does.
	maxPending = 1 << 20
	// maxEncoded bounds a delta as JSON, in the form that escapes most: its
	// envelope must fit wire.MaxEnvelopeBytes whoever encodes it next.
	maxEncoded = 96 << 10
)

// rollup is what a turn streamed and the recorder has not taken yet. The engine
// adds, the recorder takes all there is: so deltas roll up while an append commits,
// and while many turns run for a time after it, too.
type rollup struct {
	mu      sync.Mutex
	pending []provider.Delta // neighbours differ in kind
	bytes   int
	err     error // why nothing more is taken

	more  chan struct{} // has a token when pending may have grown
	space chan struct{} // has a token when pending may have shrunk
}

func newRollup() *rollup {
	return &rollup{more: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// add takes a delta, waiting while too much is pending.
func (g *rollup) add(ctx context.Context, d provider.Delta) error {
	for {
		g.mu.Lock()
		if g.err != nil {
			defer g.mu.Unlock()
			return g.err
		}
		if g.bytes < maxPending {
			break
		}
		g.mu.Unlock()
		select {
		case <-g.space:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer g.mu.Unlock()
	g.bytes += len(d.Text)
	if n := len(g.pending); n > 0 && g.pending[n-1].Kind == d.Kind {
		g.pending[n-1].Text += d.Text
	} else {
		g.pending = append(g.pending, d)
	}
	poke(g.more)
	return nil
}

// take gives everything that is pending.
func (g *rollup) take() []provider.Delta {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.pending
	g.pending, g.bytes = nil, 0
	poke(g.space)
	return taken
}

// fail refuses what comes after with err.
func (g *rollup) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	poke(g.space)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// cut splits a text before the ledger, so that each piece has a sequence number,
// and with it a source event id, of its own (RH trap 6). Pieces end between
// characters.
func cut(text string) []string {
	var out []string
	from, encoded := 0, 0
	for i, c := range text {
		size := utf8.RuneLen(c)
		if i+size-from > wire.MaxDeltaBytes || encoded+encodedSize(c) > maxEncoded {
			out = append(out, text[from:i])
			from, encoded = i, 0
		}
		encoded += encodedSize(c)
	}
	if from < len(text) {
		out = append(out, text[from:])
	}
	return out
}

// encodedSize is the longest form of a character in a JSON text.
func encodedSize(c rune) int {
	switch {
	case c < 0x20, c == '<', c == '>', c == '&', c == 0x7f, c == 0x2028, c == 0x2029:
		return 6
	case c == '"', c == '\\':
		return 2
	}
	return utf8.RuneLen(c)
}
