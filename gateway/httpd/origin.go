package httpd

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// origins decides which web pages may act for the people that look at them.
type origins struct {
	allowed map[string]bool
	cross   *http.CrossOriginProtection
}

func newOrigins(public *url.URL, more []string) (*origins, error) {
	o := &origins{allowed: map[string]bool{originOf(public): true}, cross: http.NewCrossOriginProtection()}
	for _, raw := range more {
		u, err := ParsePublicURL(raw)
		if err != nil || u.Path != "" {
			return nil, fmt.Errorf("allowed origin %q: want scheme://host[:port]", raw)
		}
		o.allowed[originOf(u)] = true
	}
	for origin := range o.allowed {
		if err := o.cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("allowed origin: %w", err)
		}
	}
	return o, nil
}

// allow tells whether a page of this origin may act on the server that r was sent
// to. Beside the configured ones that is the server's own address in a form that
// no stranger can own: the name that a page has after DNS rebinding is a public
// one.
func (o *origins) allow(r *http.Request, origin string) bool {
	if o.allowed[origin] {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" || u.Host == "" || origin != originOf(u) {
		return false
	}
	return canonicalHost("http", u.Host) == canonicalHost("http", r.Host) && ownableByNobody(r.Host)
}

// check refuses a request that changes something and was caused by a page of
// another origin.
func (o *origins) check(r *http.Request) bool {
	if safeMethod(r.Method) {
		return true
	}
	if err := o.cross.Check(r); err != nil {
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || o.allow(r, origin)
}

func safeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// ownableByNobody tells whether a host is an address, or a name that public DNS
// cannot hold.
func ownableByNobody(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	if name != "" && !strings.Contains(name, ".") {
		return true
	}
	for _, suffix := range []string{".localhost", ".local", ".internal", ".home.arpa"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// proxies are the peers whose X-Forwarded-For is believed.
type proxies []netip.Prefix

// clientAddress is the address of the client. Of X-Forwarded-For only the part
// that listed proxies wrote counts: it is read from its end.
func (p proxies) clientAddress(r *http.Request) string {
	peer := peerAddress(r)
	if !p.listed(peer) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		ip, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		peer = ip.Unmap().String()
		if !p.listed(peer) {
			break
		}
	}
	return peer
}

func (p proxies) listed(address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	for _, prefix := range p {
		if prefix.Contains(ip) {
			return true
		}
	}
	return false
}

func peerAddress(r *http.Request) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return ap.Addr().Unmap().WithZone("").String()
}
