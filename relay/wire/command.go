package wire

// Command types (relay-host.md §1.1, RH51).
const (
	TypePromptRequest = "prompt.request"
	TypeRunControl    = "run.control"
)

// PromptRequest asks a host to run one turn (relay-host.md §1.1). Field values
// are kept as received: nothing is trimmed before it is fingerprinted.
type PromptRequest struct {
	Type             string    `json:"type"`
	RunID            string    `json:"runId"`
	TurnID           string    `json:"turnId"`
	OperationKey     string    `json:"operationKey"`
	RuntimeBindingID string    `json:"runtimeBindingId"`
	RuntimeThreadID  string    `json:"runtimeThreadId"`
	Prompt           string    `json:"prompt"`
	Images           []Image   `json:"images,omitempty"`
	SystemPrompt     *string   `json:"systemPrompt,omitempty"`
	Model            string    `json:"model"`
	ModelProvider    string    `json:"modelProvider"`
	ModelProviderID  string    `json:"modelProviderId"`
	ReasoningEffort  *string   `json:"reasoningEffort,omitempty"`
	MaxOutputTokens  *uint32   `json:"maxOutputTokens,omitempty"`
	AllowedTools     []string  `json:"allowedTools"`
	Mode             string    `json:"mode"`
	RequestedMode    string    `json:"requestedMode"`
	Workspace        Workspace `json:"workspace"`
	// ContinueFrom is the binding whose completed rounds a new binding starts
	// with; only to hosts with CapabilityContinueFrom.
	ContinueFrom *string `json:"continueFrom,omitempty"`
	// Context is shown to the model for this turn alone, at most
	// MaxContextBytes; only to hosts with CapabilityTurnContext.
	Context *string `json:"context,omitempty"`
}

// Image is one picture of a prompt: standard padded base64 of the file (RH12).
type Image struct {
	Mime       string `json:"mime"`
	DataBase64 string `json:"dataBase64"`
}

// Workspace names, in opaque ids, where the prompt was written.
type Workspace struct {
	ID        string `json:"id"`
	TargetRef string `json:"targetRef"`
}

// RunControl stops one turn (RH51, RH37). Action is always "interrupt".
type RunControl struct {
	Type             string `json:"type"`
	RunID            string `json:"runId"`
	Action           string `json:"action"`
	Reason           string `json:"reason"`
	TurnID           string `json:"turnId"`
	RuntimeBindingID string `json:"runtimeBindingId"`
	RuntimeThreadID  string `json:"runtimeThreadId"`
}

// Command is a parsed command of a control plane; exactly one field is set.
type Command struct {
	Prompt  *PromptRequest
	Control *RunControl
}

// Limits of a command, inclusive.
const (
	MaxPromptBytes       = 131_072
	MaxSystemPromptBytes = 64_000
	MaxContextBytes      = 64_000
	MaxReasonBytes       = 800
	MaxOperationKeyBytes = 128
	MaxDeltaBytes        = 32_768
	MaxEnvelopeBytes     = 131_072
	MaxAckErrorChars     = 800
)
