package wire

// Protocol strings of the relay contract, kept byte for byte.
const (
	ChatRelayProtocol = "codewhale.runtime-chat-relay.v1"
	RuntimeService    = "codewhale-runtime-api"
	RuntimeAPIVersion = "1.0"
)

// Capabilities that a host and a gateway may agree on when a link opens.
const (
	CapabilityContinueFrom = "continue_from"
	CapabilityTurnContext  = "turn_context"
	CapabilityReasoning    = "reasoning"
	CapabilityOutcome      = "outcome"
	CapabilitySteer        = "steer"
)

// Support says whether a route can do something; a missing fact is unknown,
// never guessed from a name.
type Support string

// The three answers.
const (
	Supported   Support = "supported"
	Unsupported Support = "unsupported"
	Unknown     Support = "unknown"
)

// Credential states of a published provider (RH16).
const (
	CredentialConfigured = "configured"
	CredentialLocal      = "local"
	CredentialNoAuth     = "no_auth"
)

// Catalog is what a host publishes of its routes (relay-host.md §1.5). It never
// holds a key, a URL, a host name or a path (RH18).
type Catalog struct {
	Protocol  string            `json:"protocol"`
	Challenge string            `json:"challenge"`
	Runtime   CatalogRuntime    `json:"runtime"`
	Providers []CatalogProvider `json:"providers"`
}

// CatalogRuntime describes the host's program.
type CatalogRuntime struct {
	Service      string              `json:"service"`
	APIVersion   string              `json:"apiVersion"`
	Version      string              `json:"codewhaleVersion"`
	AuthRequired bool                `json:"authRequired"`
	Capabilities CatalogCapabilities `json:"capabilities"`
}

// CatalogCapabilities are the fixed promises of the relay contract.
type CatalogCapabilities struct {
	RelayChatV1              bool `json:"relay_chat_v1"`
	IsolatedChatThreads      bool `json:"isolated_chat_threads"`
	TurnOperationIdempotency bool `json:"turn_operation_idempotency"`
	TurnImageInputs          bool `json:"turn_image_inputs"`
	TurnOutputTokenLimit     bool `json:"turn_output_token_limit"`
	ToolExecution            bool `json:"tool_execution"`
	StableEventIDs           bool `json:"stable_event_ids"`
}

// CatalogProvider is one ready provider and its models, sorted bytewise by id.
type CatalogProvider struct {
	ID              string         `json:"id"`
	ModelProviderID string         `json:"modelProviderId"`
	DisplayName     string         `json:"displayName"`
	DefaultModel    string         `json:"defaultModel"`
	CredentialState string         `json:"credentialState"`
	Models          []CatalogModel `json:"models"`
}

// CatalogModel is one model that the provider serves.
type CatalogModel struct {
	ID                    string   `json:"id"`
	ImageInput            Support  `json:"imageInput"`
	OutputTokenLimit      Support  `json:"outputTokenLimit"`
	ReasoningEffort       Support  `json:"reasoningEffort"`
	ReasoningEffortLevels []string `json:"reasoningEffortLevels"`
	ReasoningEffortSource *string  `json:"reasoningEffortSource"`
}
