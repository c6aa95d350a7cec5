package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	defaultConfigFile = "fairlead.yaml"
	envPrefix         = "FAIRLEAD_"
	envConfigFile     = "FAIRLEAD_CONFIG"
)

// config holds the settings in force. docs/settings.md describes each; a test
// holds the two together.
type config struct {
	DataDir      string          `koanf:"data_dir"`
	DatabaseURL  databaseURL     `koanf:"database_url"` // "" is SQLite in DataDir
	Listen       string          `koanf:"listen"`
	PublicURL    string          `koanf:"public_url"` // "" is http:// and the address listened on
	Host         hostConfig      `koanf:"host"`
	HostLink     hostLinkConfig  `koanf:"host_link"`
	Placement    []placeConfig   `koanf:"placement"`
	DefaultModel string          `koanf:"default_model"` // "" is the first ready one
	Turn         turnConfig      `koanf:"turn"`
	Route        routeConfig     `koanf:"route"`
	Context      contextConfig   `koanf:"context"`
	Shutdown     shutdownConfig  `koanf:"shutdown"`
	Limits       limitsConfig    `koanf:"limits"`
	Billing      billingConfig   `koanf:"billing"`
	Telemetry    telemetryConfig `koanf:"telemetry"`
	Log          logConfig       `koanf:"log"`

	origins origins
	environ []string
}

// databaseURL may hold a password, which its printed form leaves out.
type databaseURL string

func (u databaseURL) String() string {
	if u == "" {
		return ""
	}
	return sqldb.RedactURL(string(u))
}

type hostConfig struct {
	Name        string `koanf:"name"`
	MaxInflight int    `koanf:"max_inflight"`
	// Drain is how long a host of `fairlead host run` waits for its turns (RH62); the
	// embedded one has shutdown.drain.
	Drain time.Duration `koanf:"drain"`
	// Providers is never empty: without any in the settings it is the demo model.
	Providers []providerConfig `koanf:"providers"`
}

// hostLinkConfig is what the gateway keeps to with hosts.
type hostLinkConfig struct {
	Heartbeat time.Duration `koanf:"heartbeat"`
	Silence   time.Duration `koanf:"silence"`
}

// placeConfig says which hosts may serve a model or an org.
type placeConfig struct {
	Model   string   `koanf:"model"`   // "" is every one
	Org     string   `koanf:"org"`     // its id, "" is every one
	Require []string `koanf:"require"` // labels of a host
	Prefer  []string `koanf:"prefer"`
}

type turnConfig struct {
	PendingTimeout time.Duration `koanf:"pending_timeout"`
	Deadline       time.Duration `koanf:"deadline"`
	// HostSilence is how long a running turn outlives its host's last word.
	HostSilence time.Duration `koanf:"host_silence"`
	// DeadlineWarning is five minutes before the end of two hours, unless it is set.
	DeadlineWarning time.Duration `koanf:"deadline_warning"`
}

type routeConfig struct {
	MaxWait time.Duration `koanf:"max_wait"`
}

type contextConfig struct {
	StoppedAnswers string `koanf:"stopped_answers"` // include or omit
}

type shutdownConfig struct {
	Drain time.Duration `koanf:"drain"` // 0 waits for no turn
}

// limitsConfig holds limits that an admin can set otherwise for an org or a
// member; 0 is none.
type limitsConfig struct {
	OrgConcurrentTurns    int `koanf:"org_concurrent_turns"`
	MemberConcurrentTurns int `koanf:"member_concurrent_turns"`
}

type billingConfig struct {
	Prices []priceConfig `koanf:"prices"`
}

// priceConfig makes one model of one provider metered. Prices are credits for
// 1,000,000 tokens.
type priceConfig struct {
	Provider      string `koanf:"provider"` // the provider's key
	Model         string `koanf:"model"`
	Input         int64  `koanf:"input"`
	Output        int64  `koanf:"output"`
	CacheRead     int64  `koanf:"cache_read"`
	CacheCreation int64  `koanf:"cache_creation"`
}

// of gives the prices of a model by the key of its provider; false for one that
// is not metered.
func (b billingConfig) of(provider, model string) (gateway.Prices, bool) {
	for _, p := range b.Prices {
		if p.Provider == provider && p.Model == model {
			return gateway.Prices{
				Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheCreation: p.CacheCreation,
			}, true
		}
	}
	return gateway.Prices{}, false
}

type telemetryConfig struct {
	OTLPEndpoint string `koanf:"otlp_endpoint"` // "" sends nothing
}

type logConfig struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// providerConfig is one entry of host.providers. Values are complete: what the
// settings leave out has its default.
type providerConfig struct {
	ID                     string        `koanf:"id"`
	Key                    string        `koanf:"key"`
	Name                   string        `koanf:"name"`
	API                    string        `koanf:"api"`
	BaseURL                string        `koanf:"base_url"`
	APIKeyEnv              string        `koanf:"api_key_env"`
	APIKeyFile             string        `koanf:"api_key_file"`
	FirstTokenTimeout      time.Duration `koanf:"first_token_timeout"`
	IdleTimeout            time.Duration `koanf:"idle_timeout"`
	OutputLimitField       string        `koanf:"output_limit_field"`
	StreamUsage            *bool         `koanf:"stream_usage"`
	ReplayReasoning        bool          `koanf:"replay_reasoning"`
	Thinking               string        `koanf:"thinking"`
	DefaultMaxOutputTokens uint32        `koanf:"default_max_output_tokens"`
	Models                 []modelConfig `koanf:"models"`
}

// modelConfig is one model of a provider.
type modelConfig struct {
	ID              string   `koanf:"id"`
	Upstream        string   `koanf:"upstream"`
	Family          string   `koanf:"family"`
	ImageInput      string   `koanf:"image_input"`
	MaxOutputTokens string   `koanf:"max_output_tokens"`
	ReasoningEffort string   `koanf:"reasoning_effort"`
	ReasoningLevels []string `koanf:"reasoning_effort_levels"` // canonical (RH13)
}

func defaultConfig() config {
	return config{
		DataDir:  "./fairlead-data",
		Listen:   "127.0.0.1:8080",
		Host:     hostConfig{Name: "embedded", MaxInflight: 8, Drain: 45 * time.Second},
		HostLink: hostLinkConfig{Heartbeat: 25 * time.Second, Silence: 90 * time.Second},
		Turn:     turnConfig{PendingTimeout: 10 * time.Minute, Deadline: 2 * time.Hour, HostSilence: 3 * time.Minute},
		Route:    routeConfig{MaxWait: time.Minute},
		Context:  contextConfig{StoppedAnswers: "include"},
		Shutdown: shutdownConfig{Drain: 20 * time.Second},
		Log:      logConfig{Level: "info", Format: "text"},
	}
}

// demoProvider is the only provider of settings that name none.
func demoProvider() providerConfig {
	return providerConfig{ID: "demo", Key: "demo", API: string(provider.APIDemo)}
}

func demoModel() modelConfig {
	yes := string(wire.Supported)
	return modelConfig{
		ID: "demo", ImageInput: yes, MaxOutputTokens: yes, ReasoningEffort: yes,
		ReasoningLevels: []string{"low", "medium", "high"},
	}
}

// flagSetting is a setting that a flag gives.
type flagSetting struct{ flag, path, value string }

// loadConfig reads the settings: the file, then the environment, then flags. An
// error of the settings is a *configError that holds all faults found.
func loadConfig(file string, environ []string, flags []flagSetting) (*config, error) {
	l := &loader{k: koanf.New("."), origins: origins{}, paths: settable()}
	if err := l.file(file, environ); err != nil {
		return nil, err
	}
	l.environment(environ)
	l.flags(flags)
	cfg := defaultConfig()
	l.decode(&cfg)
	if len(l.faults) > 0 {
		return nil, l.err()
	}
	cfg.origins, cfg.environ = l.origins, environ
	cfg.complete()
	if l.faults = cfg.check(); len(l.faults) > 0 {
		return nil, l.err()
	}
	return &cfg, nil
}

// loader gathers the layers of the settings and what is wrong with them.
type loader struct {
	k       *koanf.Koanf
	origins origins
	paths   map[string]bool // settings that can be named; true where a value is text
	faults  []fault
}

// layer is one layer of settings, for koanf.
type layer map[string]any

// ReadBytes is not used by koanf for a layer without a parser.
func (layer) ReadBytes() ([]byte, error) { return nil, nil }

// Read gives the layer.
func (l layer) Read() (map[string]any, error) { return l, nil }

// environment applies the variables; FAIRLEAD_HOST__NAME is host.name.
func (l *loader) environment(environ []string) {
	_ = l.k.Load(env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			if name == envConfigFile || chatVariable(name) {
				return "", nil
			}
			path := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "__", "."))
			v, ok := l.value(name, path, value)
			if !ok {
				return "", nil
			}
			return path, v
		},
	}), nil)
}

// flags applies the flags.
func (l *loader) flags(flags []flagSetting) {
	for _, f := range flags {
		if v, ok := l.value(f.flag, f.path, f.value); ok {
			_ = l.k.Set(f.path, v)
		}
	}
}

// value reads a setting that stands in a variable or a flag: text as it is, all
// else as in the file.
func (l *loader) value(origin, path, raw string) (any, bool) {
	text, known := l.paths[path]
	if !known {
		l.faults = append(l.faults, fault{origin, path, "there is no such setting"})
		return nil, false
	}
	l.origins.replace(path, origin)
	if text {
		return raw, true
	}
	var v any
	if err := yaml.Unmarshal([]byte(raw), &v); err != nil {
		l.faults = append(l.faults, fault{origin, path, "is not valid YAML"})
		return nil, false
	}
	return v, true
}

// complete fills in what depends on other settings.
func (c *config) complete() {
	if c.Host.Providers == nil {
		c.Host.Providers = []providerConfig{demoProvider()}
	}
	for i := range c.Host.Providers {
		c.Host.Providers[i].complete()
	}
	if _, set := c.origins["turn.deadline_warning"]; !set {
		c.Turn.DeadlineWarning = c.Turn.Deadline - c.Turn.Deadline/24
	}
}

func (p *providerConfig) complete() {
	demo := p.API == string(provider.APIDemo)
	if p.Name == "" {
		p.Name = p.ID
		if demo {
			p.Name = "Demo"
		}
	}
	if demo && len(p.Models) == 0 {
		p.Models = []modelConfig{demoModel()}
	}
	if p.FirstTokenTimeout == 0 {
		p.FirstTokenTimeout = provider.DefaultFirstTokenTimeout
	}
	if p.IdleTimeout == 0 {
		p.IdleTimeout = provider.DefaultIdleTimeout
	}
	for i := range p.Models {
		p.Models[i].complete(p.ID)
	}
}

func (m *modelConfig) complete(family string) {
	if m.Upstream == "" {
		m.Upstream = m.ID
	}
	if m.Family == "" {
		m.Family = family
	}
	for _, fact := range []*string{&m.ImageInput, &m.MaxOutputTokens, &m.ReasoningEffort} {
		if *fact == "" {
			*fact = string(wire.Unknown)
		}
	}
	for i, level := range m.ReasoningLevels {
		if canonical, ok := wire.NormalizeEffort(level); ok {
			m.ReasoningLevels[i] = canonical
		}
	}
}

// fault is one thing that is wrong with the settings.
type fault struct{ origin, path, problem string }

func (f fault) String() string {
	if f.path == "" {
		return fmt.Sprintf("%s: %s", f.origin, f.problem)
	}
	return fmt.Sprintf("%s: %s: %s", f.origin, f.path, f.problem)
}

// configError is a list of faults. It repeats no value: one may be a secret.
type configError struct{ faults []fault }

func (e *configError) Error() string {
	var b strings.Builder
	b.WriteString("the settings are wrong")
	for _, f := range e.faults {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

func (l *loader) err() error { return &configError{slices.Clip(l.faults)} }
