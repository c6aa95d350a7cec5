package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// Environment of the child process that serves as the peer of the latency
// benchmark: what it does, and where the provider is.
const (
	pumpKind     = "E2E_PUMP" // bare or fsync
	pumpProvider = "E2E_PUMP_PROVIDER"
)

// servePump is a bare relay: for each socket it asks the provider once and sends
// every line of the answer on as one message, without accounts, validation or
// projection. Kind fsync appends each line to a shared log and syncs before it
// is sent, in groups.
func servePump(kind string) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	p := &pump{provider: os.Getenv(pumpProvider)}
	if kind == "fsync" {
		f, err := os.CreateTemp(os.Getenv("TMPDIR"), "pump")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.Remove(f.Name())
		p.log = newGroupLog(f)
	}
	fmt.Fprintln(os.Stderr, http.Serve(listener, p))
	return 1
}

type pump struct {
	provider string
	log      *groupLog
}

func (p *pump) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	ctx := context.Background()
	_ = askProvider(ctx, p.provider, r.URL.Query().Get("model"), func(line []byte) error {
		if p.log != nil {
			p.log.append(line)
		}
		return conn.Write(ctx, websocket.MessageText, line)
	})
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// askProvider makes one streaming request and gives each data line to each.
func askProvider(ctx context.Context, url, model string, each func([]byte) error) error {
	body, err := json.Marshal(map[string]any{
		"model": model, "stream": true, "messages": []any{map[string]any{"role": "user", "content": "go"}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if line, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := each([]byte(line)); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// groupLog is an append-only file with group commit: who arrives while a sync is
// under way shares the next one.
type groupLog struct {
	file    *os.File
	mu      sync.Mutex
	cond    *sync.Cond
	pending []byte
	queued  int64 // number of the newest line in pending
	synced  int64
	busy    bool
}

func newGroupLog(f *os.File) *groupLog {
	l := &groupLog{file: f}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *groupLog) append(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(append(l.pending, line...), '\n')
	l.queued++
	mine := l.queued
	for l.synced < mine {
		if l.busy {
			l.cond.Wait()
			continue
		}
		l.busy = true
		batch, upTo := l.pending, l.queued
		l.pending = nil
		l.mu.Unlock()
		_, _ = l.file.Write(batch)
		_ = l.file.Sync()
		l.mu.Lock()
		l.busy, l.synced = false, upTo
		l.cond.Broadcast()
	}
}
