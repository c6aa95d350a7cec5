package provider

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// API names the protocol that a provider speaks.
type API string

// The APIs that New knows.
const (
	APIDemo      API = "demo"
	APIChat      API = "openai-chat"
	APIResponses API = "openai-responses"
	APIMessages  API = "anthropic-messages"
)

// APIs lists them in the order in which the documentation names them.
func APIs() []API { return []API{APIDemo, APIChat, APIResponses, APIMessages} }

// Thinking says how a reasoning effort is written for the Anthropic API.
type Thinking string

// Effort sends output_config.effort with adaptive thinking, as models since
// Claude 4.6 want it; budget sends thinking.budget_tokens, for those before.
const (
	ThinkingEffort Thinking = "effort"
	ThinkingBudget Thinking = "budget"
)

// LimitField names the field in which openai-chat sends an output limit.
type LimitField string

// OpenAI itself refuses max_tokens for its reasoning models; many servers that
// follow its API know only max_tokens.
const (
	LimitMaxTokens           LimitField = "max_tokens"
	LimitMaxCompletionTokens LimitField = "max_completion_tokens"
)

// What a Config with zero values means.
const (
	DefaultFirstTokenTimeout = 300 * time.Second
	DefaultIdleTimeout       = 120 * time.Second
	DefaultDemoDelay         = 8 * time.Millisecond
	// DefaultMaxOutputTokens is what Anthropic is asked for, where a limit is
	// obligatory, when neither the turn nor the settings name one.
	DefaultMaxOutputTokens = 16_384

	defaultOpenAIURL    = "https://api.openai.com/v1"
	defaultAnthropicURL = "https://api.anthropic.com"
)

// Config says which provider a Client speaks to. Only API is obligatory.
type Config struct {
	API API
	// BaseURL includes the version part for the OpenAI APIs (…/v1); for Anthropic
	// it may. "" is the vendor's own address.
	BaseURL string
	// APIKey is sent as the API wants it; the zero Key sends none.
	APIKey Key
	// FirstTokenTimeout bounds the silence before the first piece of answer or
	// reasoning, IdleTimeout every silence after it. Any byte ends a silence.
	FirstTokenTimeout time.Duration
	IdleTimeout       time.Duration
	// Transport makes the one request of a stream; nil is NewTransport().
	Transport http.RoundTripper
	// Now tells the time against which Retry-After is reckoned; nil is time.Now.
	Now func() time.Time

	// LimitField is for openai-chat; "" is max_completion_tokens at OpenAI and
	// max_tokens elsewhere.
	LimitField LimitField
	// OmitStreamOptions leaves out stream_options.include_usage (openai-chat), for
	// servers that refuse it. Mistral, which does, is recognised by its address.
	OmitStreamOptions bool
	// ReplayReasoning hands earlier reasoning back as reasoning_content
	// (openai-chat), for routes that refuse the next request without it (F34).
	ReplayReasoning bool
	// Thinking is for anthropic-messages; "" is ThinkingEffort.
	Thinking Thinking
	// MaxOutputTokens is for anthropic-messages; 0 is DefaultMaxOutputTokens.
	MaxOutputTokens uint32
	// DemoDelay is the pause of the demo model before each word; 0 is
	// DefaultDemoDelay, below 0 is none.
	DemoDelay time.Duration
}

// New makes a Client. It makes no connection. An error names the field at fault
// and never holds the key.
func New(cfg Config) (Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	switch cfg.API {
	case APIDemo:
		return &demo{delay: cfg.DemoDelay}, nil
	case APIChat:
		return newClient(cfg, chat{
			limit: cfg.LimitField, usage: !cfg.OmitStreamOptions, replay: cfg.ReplayReasoning,
		}), nil
	case APIResponses:
		return newClient(cfg, responses{}), nil
	default: // Validate left no other
		return newClient(cfg, messages{thinking: cfg.Thinking, maxTokens: cfg.MaxOutputTokens}), nil
	}
}

// Validate tells what is wrong with a Config: a *ConfigError, or nil.
func (cfg Config) Validate() error {
	if !slices.Contains(APIs(), cfg.API) {
		return &ConfigError{"api", "must be demo, openai-chat, openai-responses or anthropic-messages"}
	}
	if err := validateBaseURL(cfg.BaseURL); err != nil {
		return &ConfigError{"base_url", err.Error()}
	}
	if !cfg.APIKey.sendable() {
		return &ConfigError{"api_key", "holds characters that no HTTP header can carry"}
	}
	if cfg.FirstTokenTimeout < 0 {
		return &ConfigError{"first_token_timeout", "must not be negative"}
	}
	if cfg.IdleTimeout < 0 {
		return &ConfigError{"idle_timeout", "must not be negative"}
	}
	if !slices.Contains([]LimitField{"", LimitMaxTokens, LimitMaxCompletionTokens}, cfg.LimitField) {
		return &ConfigError{"output_limit_field", "must be max_tokens or max_completion_tokens"}
	}
	if !slices.Contains([]Thinking{"", ThinkingEffort, ThinkingBudget}, cfg.Thinking) {
		return &ConfigError{"thinking", "must be effort or budget"}
	}
	return nil
}

// ConfigError names the setting of a Config that is wrong, as it is called in a
// settings file.
type ConfigError struct{ Field, Problem string }

func (e *ConfigError) Error() string { return e.Field + " " + e.Problem }

func (cfg Config) withDefaults() Config {
	if cfg.FirstTokenTimeout == 0 {
		cfg.FirstTokenTimeout = DefaultFirstTokenTimeout
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = DefaultIdleTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Transport == nil && cfg.API != APIDemo {
		cfg.Transport = NewTransport()
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultOpenAIURL
		if cfg.API == APIMessages {
			cfg.BaseURL = defaultAnthropicURL
		}
	}
	host := hostOf(cfg.BaseURL)
	cfg.OmitStreamOptions = cfg.OmitStreamOptions || host == "api.mistral.ai"
	if cfg.LimitField == "" {
		cfg.LimitField = LimitMaxTokens
		if atOpenAI(host) {
			cfg.LimitField = LimitMaxCompletionTokens
		}
	}
	if cfg.Thinking == "" {
		cfg.Thinking = ThinkingEffort
	}
	if cfg.MaxOutputTokens == 0 {
		cfg.MaxOutputTokens = DefaultMaxOutputTokens
	}
	if cfg.DemoDelay == 0 {
		cfg.DemoDelay = DefaultDemoDelay
	}
	return cfg
}

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func atOpenAI(host string) bool {
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") ||
		strings.HasSuffix(host, ".openai.azure.com")
}

// validateBaseURL does not quote the URL: it may hold a password.
func validateBaseURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return errors.New("must be an address such as https://host/v1")
	case u.User != nil:
		return errors.New("must hold no user name or password: use api_key_env or api_key_file")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must hold neither a query nor a fragment")
	}
	for _, end := range []string{"/chat/completions", "/responses", "/messages"} {
		if strings.HasSuffix(strings.TrimRight(u.Path, "/"), end) {
			return fmt.Errorf("must end before %s, which is added", end)
		}
	}
	return nil
}
