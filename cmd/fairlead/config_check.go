package main

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	maxInflightLimit = 1024
	maxNameBytes     = 100
	maxDrain         = time.Hour
	minHeartbeat     = time.Second
	maxHeartbeat     = 10 * time.Minute
	// maxConcurrentTurns and maxPrice keep a slip of the keyboard from being taken
	// for a wish.
	maxConcurrentTurns = 100_000
	maxPrice           = 1_000_000_000
)

// checker gathers what is wrong with values. It repeats none of them.
type checker struct {
	cfg    *config
	faults []fault
}

// check tells what is wrong with the values of a complete config, in the order
// in which they stand.
func (c *config) check() []fault {
	k := &checker{cfg: c}
	if strings.TrimSpace(c.DataDir) == "" {
		k.fault("data_dir", "must name a folder")
	}
	if c.DatabaseURL != "" {
		if err := sqldb.CheckURL(string(c.DatabaseURL)); err != nil {
			k.fault("database_url", "must be postgres://user:password@host:port/name, with odd characters of the password written as %XX")
		}
	}
	k.listen(c.Listen)
	if c.PublicURL != "" {
		if _, err := httpd.ParsePublicURL(c.PublicURL); err != nil {
			k.fault("public_url", "must be an address such as https://chat.example.com, with nothing but host, port and path")
		}
	}
	k.label("host.name", c.Host.Name)
	if n := c.Host.MaxInflight; n < 1 || n > maxInflightLimit {
		k.fault("host.max_inflight", fmt.Sprintf("must be from 1 to %d", maxInflightLimit))
	}
	k.providers(c.Host.Providers)
	k.hosts()
	if c.Turn.PendingTimeout <= 0 {
		k.fault("turn.pending_timeout", "must be more than nothing")
	}
	if c.Turn.Deadline <= 0 {
		k.fault("turn.deadline", "must be more than nothing")
	} else if w := c.Turn.DeadlineWarning; w <= 0 || w >= c.Turn.Deadline {
		k.fault("turn.deadline_warning", "must be more than nothing and less than turn.deadline")
	}
	if c.Route.MaxWait < 0 {
		k.fault("route.max_wait", "must not be negative")
	}
	if c.Shutdown.Drain < 0 || c.Shutdown.Drain > maxDrain {
		k.fault("shutdown.drain", "must be from 0s to 1h")
	}
	k.account()
	k.oneOf("context.stopped_answers", c.Context.StoppedAnswers, "include", "omit")
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "text", "json")
	slices.SortStableFunc(k.faults, func(a, b fault) int { return compareOrigins(a.origin, b.origin) })
	return k.faults
}

// elsewhere names the settings about models that no provider of this program has.
// They may be those of a host on another machine, or a slip of the keyboard.
func (c *config) elsewhere() (paths []string) {
	has := func(provider, model string) bool {
		return slices.ContainsFunc(c.Host.Providers, func(p providerConfig) bool {
			return (provider == "" || p.Key == provider) && p.serves(model)
		})
	}
	if c.DefaultModel != "" && !has("", c.DefaultModel) {
		paths = append(paths, "default_model")
	}
	for i, p := range c.Billing.Prices {
		if !has(p.Provider, p.Model) {
			paths = append(paths, fmt.Sprintf("billing.prices[%d]", i))
		}
	}
	for i, p := range c.Placement {
		if p.Model != "" && !has("", p.Model) {
			paths = append(paths, fmt.Sprintf("placement[%d]", i))
		}
	}
	return paths
}

func (k *checker) fault(path, problem string) {
	k.faults = append(k.faults, fault{k.cfg.origins.of(path), path, problem})
}

// hosts checks what concerns hosts on other machines.
func (k *checker) hosts() {
	c := k.cfg
	if c.Host.Drain < 0 || c.Host.Drain > maxDrain {
		k.fault("host.drain", "must be from 0s to 1h")
	}
	if h := c.HostLink.Heartbeat; h < minHeartbeat || h > maxHeartbeat {
		k.fault("host_link.heartbeat", "must be from 1s to 10m")
	} else if c.HostLink.Silence < 2*h {
		k.fault("host_link.silence", "must be at least twice host_link.heartbeat")
	}
	if c.Turn.HostSilence < c.HostLink.Silence {
		k.fault("turn.host_silence", "must not be less than host_link.silence")
	}
	for i, p := range c.Placement {
		path := fmt.Sprintf("placement[%d]", i)
		if len(p.Require) == 0 && len(p.Prefer) == 0 {
			k.fault(path, "must have labels under require or prefer")
		}
		if p.Model != "" && !wire.ValidModelID(p.Model) {
			k.fault(path+".model", "is not a model id (RH19)")
		}
		k.labels(path+".require", p.Require)
		k.labels(path+".prefer", p.Prefer)
	}
}

// labels checks labels of hosts, as `fairlead admin host label` takes them.
func (k *checker) labels(path string, labels []string) {
	for i, label := range labels {
		if !hostLabel.MatchString(label) {
			k.fault(fmt.Sprintf("%s[%d]", path, i), "must be a label: 1 to 64 letters, digits or . _ : = / + -")
		}
	}
}

// account checks what concerns models, orgs and operators alike.
func (k *checker) account() {
	c := k.cfg
	if c.DefaultModel != "" && !wire.ValidModelID(c.DefaultModel) {
		k.fault("default_model", "is not a model id (RH19)")
	}
	k.limit("limits.org_concurrent_turns", c.Limits.OrgConcurrentTurns)
	k.limit("limits.member_concurrent_turns", c.Limits.MemberConcurrentTurns)
	k.prices(c.Billing.Prices)
	if at := c.Telemetry.OTLPEndpoint; at != "" && !plainURL(at) {
		k.fault("telemetry.otlp_endpoint", "must be an address such as http://127.0.0.1:4318, without a user name, a password or a query")
	}
}

func (k *checker) limit(path string, n int) {
	if n < 0 || n > maxConcurrentTurns {
		k.fault(path, fmt.Sprintf("must be from 0 to %d, where 0 is no limit", maxConcurrentTurns))
	}
}

func (k *checker) prices(list []priceConfig) {
	type route struct{ provider, model string }
	seen := map[route]int{}
	for i, p := range list {
		path := fmt.Sprintf("billing.prices[%d]", i)
		switch {
		case p.Provider == "":
			k.fault(path+".provider", "is missing")
		case !wire.ValidRouteID(p.Provider):
			k.fault(path+".provider", "is not the key of a provider (RH20)")
		case p.Model == "":
			k.fault(path+".model", "is missing")
		case !wire.ValidModelID(p.Model):
			k.fault(path+".model", "is not a model id (RH19)")
		}
		if first, double := seen[route{p.Provider, p.Model}]; double {
			k.fault(path, fmt.Sprintf("is for the provider and model of billing.prices[%d]", first))
		}
		seen[route{p.Provider, p.Model}] = i
		k.price(path+".input", p.Input, 1)
		k.price(path+".output", p.Output, 1)
		k.price(path+".cache_read", p.CacheRead, 0)
		k.price(path+".cache_creation", p.CacheCreation, 0)
	}
}

// price checks a price; least is 1 where one must be there.
func (k *checker) price(path string, n, least int64) {
	if n < least || n > maxPrice {
		k.fault(path, fmt.Sprintf("must be from %d to %d credits for 1,000,000 tokens", least, maxPrice))
	}
}

// plainURL tells whether an address names nothing but scheme, host, port and path.
func plainURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil &&
		u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
}

func (k *checker) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.fault(path, "must be "+strings.Join(allowed[:len(allowed)-1], ", ")+" or "+allowed[len(allowed)-1])
	}
}

func (k *checker) listen(addr string) {
	_, port, err := net.SplitHostPort(addr)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n > 65535 {
		k.fault("listen", "must be host:port, such as 127.0.0.1:8080")
	}
}

// label checks a name that people see.
func (k *checker) label(path, name string) {
	odd := strings.ContainsFunc(name, unicode.IsControl)
	if strings.TrimSpace(name) == "" || len(name) > maxNameBytes || odd {
		k.fault(path, fmt.Sprintf("must be a name of 1 to %d bytes on one line", maxNameBytes))
	}
}

func (k *checker) providers(list []providerConfig) {
	if len(list) == 0 {
		k.fault("host.providers", "must name at least one provider, or not be there")
	}
	type route struct{ id, key string }
	seen := map[route]int{}
	for i := range list {
		path := fmt.Sprintf("host.providers[%d]", i)
		k.provider(path, &list[i])
		r := route{list[i].ID, list[i].Key}
		if first, double := seen[r]; double {
			k.fault(path, fmt.Sprintf("has the id and key of host.providers[%d]", first))
			continue
		}
		seen[r] = i
	}
}

func (k *checker) provider(path string, p *providerConfig) {
	for _, name := range []struct{ field, value string }{{"id", p.ID}, {"key", p.Key}} {
		switch {
		case name.value == "":
			k.fault(path+"."+name.field, "is missing")
		case !wire.ValidRouteID(name.value):
			k.fault(path+"."+name.field, "is not a safe route id (RH20): letters, digits and . _ - only, at most 128, not like a key or a path")
		}
	}
	k.label(path+".name", p.Name)
	k.credentialNames(path, p)
	k.client(path, p)
	k.models(path, p)
}

// variableName is the name of an environment variable; keyLike what a key looks
// like that somebody put in its place; hostLabel a label of a host.
var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	hostLabel    = regexp.MustCompile(`^[A-Za-z0-9._:=/+-]{1,64}$`)
	keyLike      = regexp.MustCompile(`^(sk|gsk|hf|rk|pk|ghp|xai)_`)
)

func (k *checker) credentialNames(path string, p *providerConfig) {
	if p.APIKeyEnv != "" && p.APIKeyFile != "" {
		k.fault(path+".api_key_file", "stands beside api_key_env: only one of them can be")
	}
	if p.APIKeyEnv != "" && (!variableName.MatchString(p.APIKeyEnv) || keyLike.MatchString(p.APIKeyEnv)) {
		k.fault(path+".api_key_env", "must be the name of an environment variable, not the key itself")
	}
}

// client has the provider package check what it is made with.
func (k *checker) client(path string, p *providerConfig) {
	if p.API == "" {
		k.fault(path+".api", "is missing")
		return
	}
	if err := p.clientConfig(provider.Key{}).Validate(); err != nil {
		if ce, ok := err.(*provider.ConfigError); ok { //nolint:errorlint // Validate returns no other
			k.fault(path+"."+ce.Field, ce.Problem)
		}
	}
	only := func(field string, set bool, apis ...provider.API) {
		if set && !slices.Contains(apis, provider.API(p.API)) {
			k.fault(path+"."+field, "is not for this api")
		}
	}
	web := []provider.API{provider.APIChat, provider.APIResponses, provider.APIMessages}
	only("base_url", p.BaseURL != "", web...)
	only("api_key_env", p.APIKeyEnv != "", web...)
	only("api_key_file", p.APIKeyFile != "", web...)
	only("output_limit_field", p.OutputLimitField != "", provider.APIChat)
	only("stream_usage", p.StreamUsage != nil, provider.APIChat)
	only("replay_reasoning", p.ReplayReasoning, provider.APIChat)
	only("thinking", p.Thinking != "", provider.APIMessages)
	only("default_max_output_tokens", p.DefaultMaxOutputTokens != 0, provider.APIMessages)
}

func (k *checker) models(path string, p *providerConfig) {
	if len(p.Models) == 0 {
		k.fault(path+".models", "must name at least one model")
	}
	seen := map[string]int{}
	for i := range p.Models {
		m := &p.Models[i]
		at := fmt.Sprintf("%s.models[%d]", path, i)
		switch first, double := seen[m.ID]; {
		case m.ID == "":
			k.fault(at+".id", "is missing")
		case !wire.ValidModelID(m.ID):
			k.fault(at+".id", "is not a safe model id (RH19): letters, digits and . _ : / + - only, at most 256, not like a key, "+
				"a path or an address; the provider's own name goes under upstream")
		case double:
			k.fault(at+".id", fmt.Sprintf("is that of models[%d] too", first))
		default:
			seen[m.ID] = i
		}
		k.facts(at, m)
	}
}

func (k *checker) facts(path string, m *modelConfig) {
	k.label(path+".upstream", m.Upstream)
	k.label(path+".family", m.Family)
	for _, f := range []struct{ field, value string }{
		{"image_input", m.ImageInput}, {"max_output_tokens", m.MaxOutputTokens}, {"reasoning_effort", m.ReasoningEffort},
	} {
		k.oneOf(path+"."+f.field, f.value, string(wire.Supported), string(wire.Unsupported), string(wire.Unknown))
	}
	levels := path + ".reasoning_effort_levels"
	for i, level := range m.ReasoningLevels {
		item := fmt.Sprintf("%s[%d]", levels, i)
		switch canonical, ok := wire.NormalizeEffort(level); {
		case !ok:
			k.fault(item, "must be minimal, low, medium, high, xhigh, ultra, max or auto")
		case canonical == "off":
			k.fault(item, "is always there and is not listed")
		case slices.Index(m.ReasoningLevels, level) != i:
			k.fault(item, "stands twice")
		}
	}
	if len(m.ReasoningLevels) > 0 && m.ReasoningEffort != string(wire.Supported) {
		k.fault(levels, "needs reasoning_effort: supported")
	}
}
