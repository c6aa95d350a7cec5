package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy stands between a host and its gateway and does to their connections what
// networks do.
type proxy struct {
	target string
	ln     net.Listener
	done   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	ways   map[*way]struct{}
	net    weather
	turned chan struct{} // closed when net changes
	// watch, if set, is called with each message of a link before the last of its bytes
	// goes on; after, if it gives one, when they have gone.
	watch func(d direction, message []byte) (after func())
}

// direction is where bytes go.
type direction int

const (
	up   direction = iota // from the host
	down                  // to the host
)

// weather is how a network is now.
type weather struct {
	hole   [2]bool // nothing passes in this direction; it arrives when that is over
	delay  time.Duration
	jitter time.Duration
	rate   int // bytes a second, 0 is any
}

// way is one connection through the proxy.
type way struct {
	host, gateway net.Conn
	// torn says that the host's end is gone and the gateway does not know.
	torn bool
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		target: strings.TrimPrefix(target, "http://"), ln: ln,
		ways: map[*way]struct{}{}, turned: make(chan struct{}),
	}
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "http://" + p.ln.Addr().String() }

func (p *proxy) close() {
	_ = p.ln.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.calm()
	p.each(func(w *way) { w.close() })
	p.done.Wait()
}

func (p *proxy) accept() {
	for {
		host, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.carry(host) })
	}
}

// carry serves one connection until both of its ends are closed.
func (p *proxy) carry(host net.Conn) {
	p.clear(up) // what dials into a hole waits as well
	gateway, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(host)
		return
	}
	w := &way{host: host, gateway: gateway}
	p.mu.Lock()
	gone := p.closed
	if !gone {
		p.ways[w] = struct{}{}
	}
	p.mu.Unlock()
	if gone {
		w.close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(w, up, host, gateway) })
	both.Go(func() { p.pump(w, down, gateway, host) })
	both.Wait()
	w.close()
	p.mu.Lock()
	delete(p.ways, w)
	p.mu.Unlock()
}

// pump moves bytes in one direction, in their order, whatever the weather. The end
// of one direction ends both, unless the way is torn.
func (p *proxy) pump(w *way, d direction, from, to net.Conn) {
	buf := make([]byte, 16<<10)
	var seen messages
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.clear(d)
			p.hold(n)
			after := p.tell(d, seen.add(buf[:n]))
			if _, werr := to.Write(buf[:n]); werr != nil && !p.isTorn(w) {
				err = werr
			}
			after()
		}
		if err == nil {
			continue
		}
		if d == up && p.isTorn(w) {
			return // the gateway's end stays as it is, and what it sends is lost
		}
		w.close()
		return
	}
}

// tell calls watch, and gives what to do afterwards.
func (p *proxy) tell(d direction, found [][]byte) (after func()) {
	p.mu.Lock()
	watch := p.watch
	p.mu.Unlock()
	after = func() {}
	for _, message := range found {
		if watch == nil {
			break
		}
		if then := watch(d, message); then != nil {
			after = then
		}
	}
	return after
}

// watched sets watch; nil ends it.
func (p *proxy) watched(watch func(direction, []byte) func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

func (p *proxy) isTorn(w *way) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.torn
}

// clear waits until bytes pass in a direction.
func (p *proxy) clear(d direction) {
	for {
		p.mu.Lock()
		blocked, turned := p.net.hole[d] && !p.closed, p.turned
		p.mu.Unlock()
		if !blocked {
			return
		}
		<-turned
	}
}

// hold keeps n bytes for as long as the weather says.
func (p *proxy) hold(n int) {
	p.mu.Lock()
	w := p.net
	p.mu.Unlock()
	d := w.delay
	if w.jitter > 0 {
		d += rand.N(w.jitter)
	}
	if w.rate > 0 {
		d += time.Duration(n) * time.Second / time.Duration(w.rate)
	}
	if d > 0 {
		time.Sleep(d)
	}
}

// turn changes the weather.
func (p *proxy) turn(w weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.net = w
	close(p.turned)
	p.turned = make(chan struct{})
}

func (p *proxy) calm() { p.turn(weather{}) }

func (p *proxy) each(do func(*way)) {
	p.mu.Lock()
	ways := make([]*way, 0, len(p.ways))
	for w := range p.ways {
		ways = append(ways, w)
	}
	p.mu.Unlock()
	for _, w := range ways {
		do(w)
	}
}

// cut ends every connection in good order, as a proxy does that is restarted.
func (p *proxy) cut() { p.each(func(w *way) { w.close() }) }

// reset ends every connection at both ends with an RST.
func (p *proxy) reset() {
	p.each(func(w *way) {
		reset(w.host)
		reset(w.gateway)
	})
}

// tear leaves the gateway with connections whose host is gone.
func (p *proxy) tear() {
	p.each(func(w *way) {
		p.mu.Lock()
		w.torn = true
		p.mu.Unlock()
		reset(w.host)
	})
}

func (w *way) close() {
	_ = w.host.Close()
	_ = w.gateway.Close()
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// messages takes WebSocket messages out of the bytes of one direction of a
// connection, whatever their mask.
type messages struct {
	raw    []byte
	linked bool // the handshake is over
	other  bool // it is no link
}

func (m *messages) add(p []byte) (found [][]byte) {
	if m.other {
		return nil
	}
	m.raw = append(m.raw, p...)
	if !m.linked {
		head, rest, whole := bytes.Cut(m.raw, []byte("\r\n\r\n"))
		if !whole {
			return nil
		}
		m.linked = bytes.Contains(bytes.ToLower(head), []byte("upgrade: websocket"))
		m.other, m.raw = !m.linked, rest
	}
	for m.linked {
		message, size := frameOf(m.raw)
		if size == 0 {
			break
		}
		found, m.raw = append(found, message), m.raw[size:]
	}
	return found
}

// frameOf gives the payload of the first frame and the frame's size, 0 if it is not
// whole.
func frameOf(raw []byte) (payload []byte, size int) {
	if len(raw) < 2 {
		return nil, 0
	}
	n, at := int(raw[1]&0x7f), 2
	if more := map[int]int{126: 2, 127: 8}[n]; more > 0 {
		if len(raw) < at+more {
			return nil, 0
		}
		n = 0
		for _, b := range raw[at : at+more] {
			n = n<<8 | int(b)
		}
		at += more
	}
	var mask [4]byte
	if raw[1]&0x80 != 0 {
		if len(raw) < at+4 {
			return nil, 0
		}
		copy(mask[:], raw[at:])
		at += 4
	}
	if len(raw) < at+n {
		return nil, 0
	}
	payload = make([]byte, n)
	for i := range payload {
		payload[i] = raw[at+i] ^ mask[i%4]
	}
	return payload, at + n
}

// faults are what storm chooses from. Each returns after it has had its time.
var faults = []struct {
	name string
	do   func(p *proxy, d time.Duration)
}{
	{"cut", func(p *proxy, _ time.Duration) { p.cut() }},
	{"reset", func(p *proxy, _ time.Duration) { p.reset() }},
	{"half-open", func(p *proxy, _ time.Duration) { p.tear() }},
	{"blackhole", func(p *proxy, d time.Duration) { p.during(weather{hole: [2]bool{true, true}}, d) }},
	{"blackhole up", func(p *proxy, d time.Duration) { p.during(weather{hole: [2]bool{up: true}}, d) }},
	{"blackhole down", func(p *proxy, d time.Duration) { p.during(weather{hole: [2]bool{down: true}}, d) }},
	{"jitter", func(p *proxy, d time.Duration) {
		p.during(weather{delay: 5 * time.Millisecond, jitter: 50 * time.Millisecond}, d)
	}},
	{"throttle", func(p *proxy, d time.Duration) { p.during(weather{rate: 64 << 10}, d) }},
}

func (p *proxy) during(w weather, d time.Duration) {
	p.turn(w)
	time.Sleep(d)
	p.calm()
}

// storm does one fault after the other until ctx ends, and then lets the weather be
// calm. It tells how often it did which.
func (p *proxy) storm(ctx context.Context, random *rand.Rand, pause, longest time.Duration) string {
	counts := make([]int, len(faults))
	for ctx.Err() == nil {
		select {
		case <-time.After(pause/2 + time.Duration(random.Int64N(int64(pause)))):
		case <-ctx.Done():
			continue
		}
		i := random.IntN(len(faults))
		counts[i]++
		faults[i].do(p, time.Duration(random.Int64N(int64(longest))))
	}
	p.calm()
	var b strings.Builder
	for i, n := range counts {
		fmt.Fprintf(&b, "%d %s, ", n, faults[i].name)
	}
	return strings.TrimSuffix(b.String(), ", ")
}
