package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestF22_KillsAtRandomMomentsLoseAndRepeatNothing kills the program at random
// moments of turns, also before the reply to the send, sends the same message
// again after the restart, and looks at what the thread, the provider and both
// logs say. E2E_KILLS sets the number of kills.
func TestF22_KillsAtRandomMomentsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBoth(t, p, "count:500+delay=2ms", func(t *testing.T, in *install) { killAtRandom(t, p, in) })
}

// onBoth runs a test on an installation that keeps all in its folder, and on one
// whose gateway is kept in PostgreSQL.
func onBoth(t *testing.T, p *provider, upstream string, test func(t *testing.T, in *install)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newInstall(t, p.URL, model{"counter", upstream}))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newInstall(t, p.URL, model{"counter", upstream}).onPostgres())
	})
}

func killAtRandom(t *testing.T, p *provider, in *install) {
	t.Helper()
	in.start()
	token := in.user("crash@example.com")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	started, full := 0, 0
	for i := range number(t, "E2E_KILLS", 8) {
		prompt := fmt.Sprintf("turn %d of seed %d", i, seed)
		v := killOnce(t, in, token, prompt, time.Duration(random.Int64N(int64(2*time.Second))))
		n := p.requests(t, prompt)
		if n > 1 {
			t.Fatalf("%q: %d provider requests", prompt, n)
		}
		started += n
		if v.answer(v.turnID) == counted(500) {
			full++
		}
	}
	in.stop()
	checkLogs(t, in)
	t.Logf("%d turns reached the provider, %d answers came through whole", started, full)
	if strings.Contains(in.log(), providerKey) {
		t.Error("the provider's key stands in the log")
	}
}

// killOnce sends a prompt, kills the program after a while, starts it again,
// sends the same once more and waits for the turn's end.
func killOnce(t *testing.T, in *install, token, prompt string, after time.Duration) *view {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	thread, message := newID(), newID()
	killed := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		in.kill()
		close(killed)
	})
	defer timer.Stop()
	v := &view{threadID: thread}
	if c, err := dial(ctx, in.url, token); err == nil {
		if _, err := c.send(ctx, "", thread, message, prompt, ""); err == nil {
			for err = v.open(ctx, c); err == nil; {
				_, err = c.next(ctx)
			}
		}
		c.close()
	}
	<-killed
	in.start()
	c, err := dial(ctx, in.url, token)
	if err != nil {
		t.Fatal(err)
	}
	if err := sendAsOftenAsTold(ctx, c, thread, message, prompt); err != nil {
		t.Fatalf("the retried send: %v", err)
	}
	c.close()
	ended := func() bool {
		turn := v.turnOf(message)
		return turn != "" && v.terminal(turn) != nil
	}
	if err := follow(ctx, in, token, v, ended); err != nil {
		t.Fatal(err)
	}
	checkTurn(t, v, message)
	return v
}

// sendAsOftenAsTold sends a message again, as every client does, while the server
// says that this may help: after a start its host may still be linking.
func sendAsOftenAsTold(ctx context.Context, c *client, thread, message, prompt string) error {
	for {
		f, err := c.send(ctx, "", thread, message, prompt, "")
		if !errors.Is(err, errRefused) || !strings.Contains(f.raw, `"retryable":true`) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func checkTurn(t *testing.T, v *view, message string) {
	t.Helper()
	originals, terminals := 0, 0
	turn := v.turnOf(message)
	for _, e := range v.events {
		if e.ID == message {
			originals++
		}
		if strings.HasPrefix(e.EventType, "turn.") && e.TurnID == turn {
			terminals++
		}
	}
	end := v.terminal(turn)
	answer := v.answer(turn)
	switch {
	case originals != 1 || terminals != 1:
		t.Fatalf("%d originals, %d terminal events:\n%s", originals, terminals, describe(v))
	case !strings.HasPrefix(counted(500), answer):
		t.Fatalf("the answer is not a beginning of what the provider sent: %q", answer)
	case !strings.HasPrefix(answer, v.text.String()):
		t.Fatalf("text was shown that the log does not hold: %d of %d bytes", v.text.Len(), len(answer))
	case end.EventType == "turn.completed" && answer != counted(500):
		t.Fatalf("completed with %d of %d bytes", len(answer), len(counted(500)))
	case end.EventType == "turn.failed" && end.Error != "host_restarted":
		t.Fatalf("failed with %s", end.Error)
	case end.EventType != "turn.completed" && end.EventType != "turn.failed":
		t.Fatalf("ended as %s", end.EventType)
	}
	v.turnID = turn
}

// checkLogs runs the checker over the data folder.
func checkLogs(t *testing.T, in *install) {
	t.Helper()
	args := []string{"run", "./checklogs", filepath.Join(in.dir, "data")}
	if in.database != "" {
		args = append(args, in.database)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the checker found faults: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}
