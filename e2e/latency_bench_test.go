package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const (
	latencyRounds = 5
	latencyDeltas = 100
)

// BenchmarkDeltaLatency measures how much later than on a direct connection a
// delta arrives: through a bare WebSocket pump, through one that syncs a raw log
// before it sends, and through Fairlead with accounts, validation, projection
// and its durable ledger. The three run interleaved in every round; what counts
// are the ratios.
func BenchmarkDeltaLatency(b *testing.B) {
	p := newProvider(b)
	in := newInstall(b, p.URL, model{"stamped", stamped})
	in.start()
	token := in.user("latency@example.com")
	bare, synced := startPump(b, "bare", p.URL), startPump(b, "fsync", p.URL)
	for _, streams := range []int{1, 100} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			for b.Loop() {
				measure(b, streams, map[string]func(context.Context) ([]time.Duration, error){
					"direct": func(ctx context.Context) ([]time.Duration, error) { return direct(ctx, p.URL) },
					"pump":   func(ctx context.Context) ([]time.Duration, error) { return pumped(ctx, bare) },
					"fsync":  func(ctx context.Context) ([]time.Duration, error) { return pumped(ctx, synced) },
					"fairlead": func(ctx context.Context) ([]time.Duration, error) {
						return through(ctx, in, token)
					},
				})
			}
		})
	}
}

func measure(b *testing.B, streams int, ways map[string]func(context.Context) ([]time.Duration, error)) {
	var overPump, overSync []float64
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	for range latencyRounds {
		p50 := map[string]time.Duration{}
		for _, name := range []string{"direct", "pump", "fsync", "fairlead"} {
			all := gather(ctx, b, streams, ways[name])
			slices.Sort(all)
			p50[name] = all[len(all)/2]
			b.Logf("%3d streams %-8s p50 %8s p99 %8s", streams, name, p50[name].Round(time.Microsecond), all[len(all)*99/100].Round(time.Microsecond))
		}
		added := float64(p50["fairlead"] - p50["direct"])
		overPump = append(overPump, added/float64(max(p50["pump"]-p50["direct"], time.Microsecond)))
		overSync = append(overSync, added/float64(max(p50["fsync"]-p50["direct"], time.Microsecond)))
	}
	slices.Sort(overPump)
	slices.Sort(overSync)
	b.ReportMetric(overPump[len(overPump)/2], "added/pump")
	b.ReportMetric(overSync[len(overSync)/2], "added/rawlog-pump")
}

// gather runs one way on several streams at once; a lost delta is a failure.
func gather(ctx context.Context, b *testing.B, streams int, way func(context.Context) ([]time.Duration, error)) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			took, err := way(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || len(took) != latencyDeltas {
				b.Errorf("%d of %d deltas: %v", len(took), latencyDeltas, err)
			}
			all = append(all, took...)
		})
	}
	wg.Wait()
	if len(all) == 0 {
		b.Fatal("nothing arrived")
	}
	return all
}

const stamped = "stamp:100+delay=20ms"

func direct(ctx context.Context, url string) (took []time.Duration, err error) {
	err = askProvider(ctx, url, stamped, func(line []byte) error {
		took = append(took, ages(string(line))...)
		return nil
	})
	return took, err
}

func pumped(ctx context.Context, url string) (took []time.Duration, err error) {
	conn, _, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+"/?model="+strings.ReplaceAll(stamped, "+", "%2B"), nil)
	if err != nil {
		return nil, err
	}
	defer conn.CloseNow()
	for {
		_, line, err := conn.Read(ctx)
		if err != nil {
			return took, nil
		}
		took = append(took, ages(string(line))...)
	}
}

func through(ctx context.Context, in *install, token string) (took []time.Duration, err error) {
	c, err := dial(ctx, in.url, token)
	if err != nil {
		return nil, err
	}
	defer c.close()
	thread := newID()
	if _, err := c.call(ctx, map[string]any{"type": "thread.create", "clientThreadId": thread}); err != nil {
		return nil, err
	}
	v := &view{threadID: thread}
	if err := v.open(ctx, c); err != nil {
		return nil, err
	}
	c.onPush = func(f frame) {
		v.apply(f)
		if f.Type == "turn.delta" {
			took = append(took, ages(f.Text)...)
		}
	}
	sent, err := c.send(ctx, thread, "", newID(), "go", "")
	if err != nil {
		return nil, err
	}
	for v.terminal(*sent.TurnID) == nil {
		if _, err := c.next(ctx); err != nil {
			return took, err
		}
	}
	return took, v.fault
}

// ages finds the stamps in a piece of text and tells how old each is.
func ages(text string) (took []time.Duration) {
	now := time.Now().UnixNano()
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
		if len(word) == 19 {
			if at, err := strconv.ParseInt(word, 10, 64); err == nil {
				took = append(took, time.Duration(now-at))
			}
		}
	}
	return took
}

func startPump(b *testing.B, kind, provider string) string {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), pumpKind+"="+kind, pumpProvider+"="+provider, "TMPDIR="+b.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}
