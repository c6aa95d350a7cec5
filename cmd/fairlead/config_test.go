package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

const canary = "sk-canary-77aa"

// read loads settings from text, as fairlead.yaml in a folder of its own.
func read(t *testing.T, yaml string, environ []string, flags ...flagSetting) (*config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fairlead.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return loadConfig(file, environ, flags)
}

func mustRead(t *testing.T, yaml string, environ []string, flags ...flagSetting) *config {
	t.Helper()
	cfg, err := read(t, yaml, environ, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// provided is a valid file with the given lines in its one provider.
func provided(extra ...string) string {
	return "host:\n  providers:\n    - id: sim\n      key: sim\n      api: openai-chat\n" +
		"      base_url: http://127.0.0.1:9090/v1\n" + strings.Join(append(extra, ""), "\n") +
		"      models:\n        - id: m\n"
}

// TestWrongSettings: each wrong file is told by file, line and setting, and no
// value is repeated.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	model := func(line string) string { return provided() + "          " + line + "\n" }
	for _, c := range []struct{ name, yaml, want string }{
		{"unknown setting", "listen: 127.0.0.1:1\nlisten_on: x\n", ":2: listen_on: there is no such setting"},
		{"wrong case", "Listen: 127.0.0.1:1\n", ":1: Listen: there is no such setting"},
		{"dotted name", "host.name: x\n", ":1: host.name: there is no such setting"},
		{"unknown in a provider", provided("      colour: red"), ":7: host.providers[0].colour: there is no such setting"},
		{"unknown in a model", model("colour: red"), ":9: host.providers[0].models[0].colour: there is no such setting"},
		{"key in the file", provided("      api_key: " + canary), ":7: host.providers[0].api_key: there is no such setting: a key never stands in this file"},
		{"key as its variable", provided("      api_key_env: " + canary), ":7: host.providers[0].api_key_env: must be the name of an environment variable"},
		{"key as its variable, underscores", provided("      api_key_env: gsk_canary77aa"), "not the key itself"},
		{"twice", "listen: 127.0.0.1:1\nlog:\n  level: info\nlisten: 127.0.0.1:2\n", ":4: listen: stands twice, first on line 1"},
		{"twice, deeper", "log:\n  level: info\n  level: warn\n", ":3: log.level: stands twice, first on line 2"},
		{"not YAML", "listen: [\n", "is not valid YAML"},
		{"not YAML, line", "listen: a\n  b: c\n", ":2: is not valid YAML"},
		{"no mapping", "- listen\n", ":1: settings are written name: value"},
		{"two documents", "listen: 127.0.0.1:1\n---\nlisten: x\n", ": a settings file holds one document"},
		{"list for text", "listen: [a]\n", ":1: listen: must be text"},
		{"number for text", provided("      name: 5"), ":7: host.providers[0].name: must be text"},
		{"text for a number", "host: {max_inflight: many}\n", ":1: host.max_inflight: must be a whole number"},
		{"quoted number", "host:\n  max_inflight: \"8\"\n", ":2: host.max_inflight: must be a whole number"},
		{"fraction", "host:\n  max_inflight: 8.5\n", ":2: host.max_inflight: must be a whole number"},
		{"text for a section", "host: x\n", ":1: host: must be written name: value"},
		{"section for a list", "host:\n  providers: {id: x}\n", ":2: host.providers: must be a list"},
		{"text in a list", "host:\n  providers: [x]\n", ":2: host.providers[0]: must be written name: value"},
		{"number for a duration", "turn:\n  pending_timeout: 600\n", ":2: turn.pending_timeout: must be a duration such as 90s or 10m"},
		{"text for a bool", provided("      replay_reasoning: sometimes"), ":7: host.providers[0].replay_reasoning: must be true or false"},
		{"negative count", provided("      default_max_output_tokens: -1"), ":7: host.providers[0].default_max_output_tokens: must be a whole number"},
		{"listen without a port", "listen: localhost\n", ":1: listen: must be host:port"},
		{"listen on no port", "listen: localhost:http\n", ":1: listen: must be host:port"},
		{"public URL", "public_url: chat.example.com\n", ":1: public_url: must be an address"},
		{"no folder", "data_dir: \"\"\n", ":1: data_dir: must name a folder"},
		{"no room", "host:\n  max_inflight: 0\n", ":2: host.max_inflight: must be from 1 to 1024"},
		{"log level", "log:\n  level: loud\n", ":2: log.level: must be debug, info, warn or error"},
		{"log format", "log: {format: xml}\n", ":1: log.format: must be text or json"},
		{"stopped answers", "context: {stopped_answers: maybe}\n", ":1: context.stopped_answers: must be include or omit"},
		{"no time", "turn: {deadline: 0s}\n", ":1: turn.deadline: must be more than nothing"},
		{"no wait", "turn: {pending_timeout: 0s}\n", ":1: turn.pending_timeout: must be more than nothing"},
		{"negative wait", "route: {max_wait: -1s}\n", ":1: route.max_wait: must not be negative"},
		{"warning after the deadline", "turn: {deadline: 1h, deadline_warning: 1h}\n", ":1: turn.deadline_warning: must be more than nothing and less than turn.deadline"},
		{"no warning", "turn: {deadline_warning: 0s}\n", ":1: turn.deadline_warning: must be more than nothing"},
		{"negative limit", "limits:\n  org_concurrent_turns: -1\n", ":2: limits.org_concurrent_turns: must be from 0 to 100000"},
		{"limit of a slip", "limits:\n  member_concurrent_turns: 1000000\n", ":2: limits.member_concurrent_turns: must be from 0 to 100000"},
		{"default model of a wrong form", "default_model: /etc/gpt\n", ":1: default_model: is not a model id"},
		{"price without a provider", "billing:\n  prices:\n    - {model: demo, input: 1, output: 1}\n", ":3: billing.prices[0].provider: is missing"},
		{"price of a strange provider", "billing:\n  prices:\n    - {provider: a/b, model: demo, input: 1, output: 1}\n", ":3: billing.prices[0].provider: is not the key of a provider"},
		{"price without a model", "billing:\n  prices:\n    - {provider: demo, input: 1, output: 1}\n", ":3: billing.prices[0].model: is missing"},
		{"RH62 drain of a host that has no end", "host: {drain: 2h}\n", ":1: host.drain: must be from 0s to 1h"},
		{"heartbeat of nothing", "host_link: {heartbeat: 0s}\n", ":1: host_link.heartbeat: must be from 1s to 10m"},
		{"silence shorter than two heartbeats", "host_link: {silence: 40s}\n", ":1: host_link.silence: must be at least twice"},
		{"turns that end before their host is lost", "turn: {host_silence: 1m}\n", ":1: turn.host_silence: must not be less than host_link.silence"},
		{"place without labels", "placement:\n  - {model: demo}\n", ":2: placement[0]: must have labels"},
		{"place with a wrong label", "placement:\n  - {require: [\"a b\"]}\n", ":2: placement[0].require[0]: must be a label"},
		{"place of a strange model", "placement:\n  - {model: /etc/x, prefer: [gpu]}\n", ":2: placement[0].model: is not a model id"},
		{"drain that has no end", "shutdown: {drain: 2h}\n", ":1: shutdown.drain: must be from 0s to 1h"},
		{"drain before the signal", "shutdown: {drain: -1s}\n", ":1: shutdown.drain: must be from 0s to 1h"},
		{"price of a strange model", "billing:\n  prices:\n    - {provider: demo, model: /m, input: 1, output: 1}\n", ":3: billing.prices[0].model: is not a model id"},
		{"SQ74 price of nothing", "billing:\n  prices:\n    - {provider: demo, model: demo, input: 1}\n", ":3: billing.prices[0].output: must be from 1 to 1000000000 credits"},
		{"SQ74 negative price", "billing:\n  prices:\n    - {provider: demo, model: demo, input: 1, output: 1, cache_read: -1}\n", ":3: billing.prices[0].cache_read: must be from 0 to"},
		{"fraction of a price", "billing:\n  prices:\n    - {provider: demo, model: demo, input: 0.5, output: 1}\n", ":3: billing.prices[0].input: must be a whole number"},
		{"two prices", "billing:\n  prices:\n    - &p {provider: demo, model: demo, input: 1, output: 1}\n    - *p\n", ":4: billing.prices[1]: is for the provider and model of billing.prices[0]"},
		{"collector without a scheme", "telemetry: {otlp_endpoint: \"localhost:4318\"}\n", ":1: telemetry.otlp_endpoint: must be an address"},
		{"password of a collector", "telemetry: {otlp_endpoint: \"http://u:" + canary + "@localhost:4318\"}\n", ":1: telemetry.otlp_endpoint: must be an address"},
		{"key in the query of a collector", "telemetry: {otlp_endpoint: \"http://localhost:4318?key=" + canary + "\"}\n", ":1: telemetry.otlp_endpoint: must be an address"},
		{"no providers", "host:\n  providers: []\n", ":2: host.providers: must name at least one provider"},
		{"provider without an id", "host:\n  providers:\n    - key: x\n      api: demo\n", ":3: host.providers[0].id: is missing"},
		{"provider without a key", "host:\n  providers:\n    - id: x\n      api: demo\n", ":3: host.providers[0].key: is missing"},
		{"provider without an api", "host:\n  providers:\n    - {id: x, key: x, models: [{id: m}]}\n", ":3: host.providers[0].api: is missing"},
		{"unknown api", "host:\n  providers:\n    - id: x\n      key: x\n      api: smoke\n      models: [{id: m}]\n", ":5: host.providers[0].api: must be demo, openai-chat, openai-responses or anthropic-messages"},
		{"RH20 provider id", "host:\n  providers:\n    - id: a/b\n      key: x\n      api: demo\n", ":3: host.providers[0].id: is not a safe route id (RH20)"},
		{"RH20 key name", "host:\n  providers:\n    - id: x\n      key: workspace\n      api: demo\n", ":4: host.providers[0].key: is not a safe route id (RH20)"},
		{"same route twice", "host:\n  providers:\n    - {id: x, key: x, api: demo}\n    - {id: x, key: x, api: demo}\n", ":4: host.providers[1]: has the id and key of host.providers[0]"},
		{"address without a scheme", provided() + "    - {id: b, key: b, api: openai-chat, base_url: \"localhost:1\", models: [{id: m}]}\n", ":9: host.providers[1].base_url: must be an address"},
		{"password in an address", "host:\n  providers:\n    - {id: b, key: b, api: openai-chat, base_url: \"http://u:" + canary + "@h/v1\", models: [{id: m}]}\n", ":3: host.providers[0].base_url: must hold no user name or password"},
		{"whole path in an address", "host:\n  providers:\n    - {id: b, key: b, api: openai-chat, base_url: \"http://h/v1/chat/completions\", models: [{id: m}]}\n", "must end before /chat/completions"},
		{"two sources of a key", provided("      api_key_env: A", "      api_key_file: b"), ":8: host.providers[0].api_key_file: stands beside api_key_env"},
		{"address for the demo", "host:\n  providers:\n    - {id: d, key: d, api: demo, base_url: \"http://h\"}\n", "host.providers[0].base_url: is not for this api"},
		{"thinking for chat", provided("      thinking: effort"), ":7: host.providers[0].thinking: is not for this api"},
		{"thinking", "host:\n  providers:\n    - {id: a, key: a, api: anthropic-messages, thinking: hard, models: [{id: m}]}\n", "host.providers[0].thinking: must be effort or budget"},
		{"limit field", provided("      output_limit_field: max"), ":7: host.providers[0].output_limit_field: must be max_tokens or max_completion_tokens"},
		{"no models", "host:\n  providers:\n    - {id: a, key: a, api: openai-chat}\n", "host.providers[0].models: must name at least one model"},
		{"model without an id", "host:\n  providers:\n    - id: a\n      key: a\n      api: openai-chat\n      models:\n        - upstream: x\n", ":7: host.providers[0].models[0].id: is missing"},
		{"RH19 model id with a space", model("upstream: x") + "        - id: my model\n", ":10: host.providers[0].models[1].id: is not a safe model id (RH19)"},
		{"RH19 model id with host and port", "host:\n  providers:\n    - {id: a, key: a, api: openai-chat, models: [{id: \"llama3:8\"}]}\n", "(RH19)"},
		{"RH21 model id like a key", "host:\n  providers:\n    - {id: a, key: a, api: openai-chat, models: [{id: " + canary + "}]}\n", "(RH19)"},
		{"RH21 model id like a path", "host:\n  providers:\n    - {id: a, key: a, api: openai-chat, models: [{id: x/home/y}]}\n", "(RH19)"},
		{"same model twice", provided() + "        - id: m\n", ":9: host.providers[0].models[1].id: is that of models[0] too"},
		{"fact", model("image_input: maybe"), ":9: host.providers[0].models[0].image_input: must be supported, unsupported or unknown"},
		{"RH13 level", model("reasoning_effort: supported") + "          reasoning_effort_levels: [low, extreme]\n", ":10: host.providers[0].models[0].reasoning_effort_levels[1]: must be minimal"},
		{"RH13 level twice", model("reasoning_effort: supported") + "          reasoning_effort_levels: [low, light]\n", "reasoning_effort_levels[1]: stands twice"},
		{"RH13 off", model("reasoning_effort: supported") + "          reasoning_effort_levels: [none]\n", "reasoning_effort_levels[0]: is always there and is not listed"},
		{"levels without the fact", model("reasoning_effort_levels: [low]"), ":9: host.providers[0].models[0].reasoning_effort_levels: needs reasoning_effort: supported"},
		{"odd name", provided("      name: \"a\\nb\""), ":7: host.providers[0].name: must be a name"},
		{"merge key", "a: &a {level: info}\nlog:\n  <<: *a\n", ":3: log: a setting's name is a plain word"},
		{"alias without end", "host: &a\n  name: *a\n", "host.name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.yaml, nil)
			var wrong *configError
			if !errors.As(err, &wrong) {
				t.Fatalf("err = %v, want a *configError", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v\nwant %q in it", err, c.want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("a value is repeated: %v", err)
			}
		})
	}
}

func TestWrongSettingsComeInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	_, err := read(t, "log: {level: loud}\n\n\n\n\n\n\n\n\nhost: {max_inflight: 0}\nlisten: x\n", []string{"FAIRLEAD_LOG__FORMAT=xml"})
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^  (?:\S*fairlead.yaml)?:?(\S+): `).FindAllStringSubmatch(err.Error(), -1) {
		got = append(got, m[1])
	}
	if want := []string{"1", "10", "11", "FAIRLEAD_LOG__FORMAT"}; !reflect.DeepEqual(got, want) {
		t.Errorf("order = %v, want %v\n%v", got, want, err)
	}
}

// TestPrecedence: default, file, variable, flag; each later one wins.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = "host:\n  name: file\nturn: {pending_timeout: 5m}\n"
	environ := []string{"FAIRLEAD_HOST__NAME=5", "FAIRLEAD_HOST__MAX_INFLIGHT=3", "HOME=/root", "FAIRLEAD_TURN__PENDING_TIMEOUT=1h30m"}
	flag := flagSetting{"--set host.name", "host.name", "flag"}
	for _, c := range []struct {
		name   string
		cfg    *config
		value  string
		source string
	}{
		{"default", mustRead(t, "", nil), "embedded", "default"},
		{"file", mustRead(t, file, nil), "file", "fairlead.yaml:2"},
		{"variable", mustRead(t, file, environ), "5", "FAIRLEAD_HOST__NAME"},
		{"flag", mustRead(t, file, environ, flag), "flag", "--set host.name"},
		{"empty file, flag", mustRead(t, "# nothing\n", nil, flag), "flag", "--set host.name"},
		{"key without a value", mustRead(t, "host:\n", nil), "embedded", "default"},
	} {
		source := c.cfg.source("host.name")
		if c.cfg.Host.Name != c.value || !strings.HasSuffix(source, c.source) {
			t.Errorf("%s: host.name = %q from %s", c.name, c.cfg.Host.Name, source)
		}
	}
	if source := mustRead(t, file, nil).source("host.drain"); source != originDefault {
		t.Errorf("host.drain, which the file does not name, comes from %s", source)
	}
	if cfg := mustRead(t, file, environ); cfg.Host.MaxInflight != 3 || cfg.Turn.PendingTimeout != 90*time.Minute {
		t.Errorf("variables: %+v %+v", cfg.Host, cfg.Turn)
	}
}

func TestVariablesAndFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		flags   []flagSetting
		want    string
	}{
		{[]string{"FAIRLEAD_COLOUR=red"}, nil, "FAIRLEAD_COLOUR: colour: there is no such setting"},
		{[]string{"FAIRLEAD_HOST=x"}, nil, "FAIRLEAD_HOST: host: there is no such setting"},
		{[]string{"FAIRLEAD_HOST__PROVIDERS__0__ID=x"}, nil, "there is no such setting"},
		{[]string{"FAIRLEAD_HOST__MAX_INFLIGHT=many"}, nil, "FAIRLEAD_HOST__MAX_INFLIGHT: host.max_inflight: must be a whole number"},
		{[]string{"FAIRLEAD_HOST__PROVIDERS={"}, nil, "FAIRLEAD_HOST__PROVIDERS: host.providers: is not valid YAML"},
		{[]string{"FAIRLEAD_HOST__PROVIDERS=[{id: x}]"}, nil, "FAIRLEAD_HOST__PROVIDERS: host.providers[0].key: is missing"},
		{nil, []flagSetting{{"--listen", "listen", "x"}}, "--listen: listen: must be host:port"},
		{nil, []flagSetting{{"--set colour", "colour", "x"}}, "--set colour: colour: there is no such setting"},
	} {
		if _, err := read(t, "", c.environ, c.flags...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: err = %v, want %q", c.environ, c.flags, err, c.want)
		}
	}
}

func TestProvidersFromAVariableReplaceThoseOfTheFile(t *testing.T) {
	t.Parallel()
	cfg := mustRead(t, provided(), []string{`FAIRLEAD_HOST__PROVIDERS=[{id: demo, key: demo, api: demo}]`})
	if len(cfg.Host.Providers) != 1 || cfg.Host.Providers[0].ID != "demo" {
		t.Errorf("providers = %+v", cfg.Host.Providers)
	}
	if got := cfg.origins.of("host.providers[0].models[0].id"); got != "FAIRLEAD_HOST__PROVIDERS" {
		t.Errorf("origin = %s", got)
	}
}

func TestDemoOnlyWithoutProviders(t *testing.T) {
	t.Parallel()
	alone := mustRead(t, "listen: 127.0.0.1:0\n", nil).Host.Providers
	if len(alone) != 1 || alone[0].ID != "demo" || alone[0].Models[0].ID != "demo" {
		t.Errorf("without providers: %+v", alone)
	}
	if got := mustRead(t, provided(), nil).Host.Providers; len(got) != 1 || got[0].ID != "sim" {
		t.Errorf("with one: %+v", got)
	}
	both := mustRead(t, provided()+"    - {id: demo, key: demo, api: demo}\n", nil).Host.Providers
	if len(both) != 2 || !reflect.DeepEqual(both[1], alone[0]) {
		t.Errorf("with both: %+v", both)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"GOOD=" + canary, "EMPTY=  ", "ODD=a b"}
	for _, c := range []struct {
		name   string
		p      providerConfig
		state  string
		reason string
		key    bool
	}{
		{"variable", providerConfig{APIKeyEnv: "GOOD"}, wire.CredentialConfigured, "", true},
		{"file", providerConfig{APIKeyFile: keyFile}, wire.CredentialConfigured, "", true},
		{"variable not set", providerConfig{APIKeyEnv: "NONE"}, "", "The environment variable NONE is not set.", false},
		{"variable empty", providerConfig{APIKeyEnv: "EMPTY"}, "", "The environment variable EMPTY is not set.", false},
		{"key that cannot be sent", providerConfig{APIKeyEnv: "ODD"}, "", "The key holds characters that cannot be sent.", false},
		{"file not there", providerConfig{APIKeyFile: keyFile + "x"}, "", "The key file is missing, empty or not readable.", false},
		{"vendor without a key", providerConfig{}, "", "No key is set for this provider.", false},
		{"this machine", providerConfig{BaseURL: "http://127.0.0.1:11434/v1"}, wire.CredentialLocal, "", false},
		{"this machine by name", providerConfig{BaseURL: "http://localhost/v1"}, wire.CredentialLocal, "", false},
		{"another machine", providerConfig{BaseURL: "http://gpu.lan/v1"}, wire.CredentialNoAuth, "", false},
		{"demo", providerConfig{API: "demo"}, wire.CredentialLocal, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.p.API == "" {
				c.p.API = "openai-chat"
			}
			got := c.p.credential(environ)
			if got.State != c.state || got.Reason != c.reason || got.Key.IsZero() == c.key || got.Ready() != (c.state != "") {
				t.Errorf("credential = %+v", got)
			}
			entry := c.p.entry(got)
			if entry.Ready != got.Ready() || entry.Reason != got.Reason || strings.Contains(entry.Reason, keyFile) {
				t.Errorf("entry = %+v", entry)
			}
		})
	}
}

func TestProviderConfigReachesTheClient(t *testing.T) {
	t.Parallel()
	cfg := mustRead(t, provided("      first_token_timeout: 10s", "      idle_timeout: 5s", "      stream_usage: false",
		"      output_limit_field: max_completion_tokens", "      replay_reasoning: true"), nil)
	got := cfg.Host.Providers[0].clientConfig(provider.Key{})
	want := provider.Config{
		API: provider.APIChat, BaseURL: "http://127.0.0.1:9090/v1", FirstTokenTimeout: 10 * time.Second, IdleTimeout: 5 * time.Second,
		LimitField: provider.LimitMaxCompletionTokens, OmitStreamOptions: true, ReplayReasoning: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if m := cfg.Host.Providers[0].Models[0]; m.Upstream != "m" || m.Family != "sim" || m.ImageInput != "unknown" {
		t.Errorf("model = %+v", m)
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocumentedSettingsAreValid loads every example of the documentation, and
// the one that the demo model gives.
func TestDocumentedSettingsAreValid(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"the demo model": demoAnswer(t)}
	for _, file := range []string{"README.md", "docs/providers.md", "docs/settings.md"} {
		raw, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(raw)
	}
	for name, text := range texts {
		blocks := yamlBlock.FindAllStringSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no settings", name)
		}
		for _, b := range blocks {
			if _, err := read(t, b[1], nil); err != nil {
				t.Errorf("%s:\n%s\n%v", name, b[1], err)
			}
		}
	}
}

func demoAnswer(t *testing.T) string {
	t.Helper()
	c, err := provider.New(provider.Config{API: provider.APIDemo, DemoDelay: -1})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	_, err = c.Stream(t.Context(), provider.Request{}, func(d provider.Delta) error {
		b.WriteString(d.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEverySettingIsDocumented holds docs/settings.md and docs/providers.md
// against the structs.
func TestEverySettingIsDocumented(t *testing.T) {
	t.Parallel()
	check := func(file string, names []string) {
		raw, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(name) + "`").Match(raw) {
				t.Errorf("%s has no row for %s", file, name)
			}
		}
	}
	var top []string
	for _, s := range settings(reflect.ValueOf(defaultConfig()), "") {
		top = append(top, s.path)
	}
	check("settings.md", top)
	var inner []string
	for _, v := range []any{providerConfig{}, modelConfig{}} {
		for _, s := range settings(reflect.ValueOf(v), "") {
			inner = append(inner, s.path)
		}
	}
	check("providers.md", inner)
}

// TestModelsOfHostsElsewhereMayBeNamed: hosts come when the gateway runs already.
func TestModelsOfHostsElsewhereMayBeNamed(t *testing.T) {
	t.Parallel()
	cfg := mustRead(t, `
default_model: gpt
billing:
  prices:
    - {provider: demo, model: demo, input: 1, output: 1}
    - {provider: far, model: demo, input: 1, output: 1}
placement:
  - {prefer: [gpu]}
  - {model: gpt, prefer: [gpu]}
`, nil)
	want := []string{"default_model", "billing.prices[1]", "placement[1]"}
	if got := cfg.elsewhere(); !slices.Equal(got, want) {
		t.Errorf("named elsewhere: %v, want %v", got, want)
	}
	if got := mustRead(t, "default_model: demo\n", nil).elsewhere(); got != nil {
		t.Errorf("named elsewhere: %v", got)
	}
}
