package wire

// Command types (relay-host.md §1.1, RH51).
const (
	TypePromptRequest = "prompt.request"
	TypeRunControl    = "run.control"
)

// PromptRequest asks a host to run one turn (relay-host.md §1.1). Field values
// are kept as received: nothing is trimmed before it is fingerprinted.
type PromptRequest struct {
	Type             string    `json:"type" validate:"required,eq=prompt.request"`
	RunID            string    `json:"runId" validate:"required,relayid"`
	TurnID           string    `json:"turnId" validate:"required,vturn"`
	OperationKey     string    `json:"operationKey" validate:"required,opkey"`
	RuntimeBindingID string    `json:"runtimeBindingId" validate:"required,relayid"`
	RuntimeThreadID  string    `json:"runtimeThreadId" validate:"required,vthread"`
	Prompt           string    `json:"prompt" validate:"required,utf8,nonul,notblank,maxbytes=131072"`
	Images           []Image   `json:"images,omitempty" validate:"omitempty,max=10,dive"`
	SystemPrompt     *string   `json:"systemPrompt,omitempty" validate:"omitnil,utf8,nonul,notblank,maxbytes=64000"`
	Model            string    `json:"model" validate:"required,modelid"`
	ModelProvider    string    `json:"modelProvider" validate:"required,routeid"`
	ModelProviderID  string    `json:"modelProviderId" validate:"required,routeid"`
	ReasoningEffort  *string   `json:"reasoningEffort,omitempty" validate:"omitnil,effort"`
	MaxOutputTokens  *uint32   `json:"maxOutputTokens,omitempty" validate:"omitnil,min=1"`
	AllowedTools     []string  `json:"allowedTools" validate:"required,len=0"`
	Mode             string    `json:"mode" validate:"required,eq=chat"`
	RequestedMode    string    `json:"requestedMode" validate:"required,eq=chat"`
	Workspace        Workspace `json:"workspace" validate:"required"`
	// ContinueFrom is the binding whose completed rounds a new binding starts
	// with; only to hosts with CapabilityContinueFrom.
	ContinueFrom *string `json:"continueFrom,omitempty" validate:"omitnil,relayid"`
	// Context is shown to the model for this turn alone, at most
	// MaxContextBytes; only to hosts with CapabilityTurnContext.
	Context *string `json:"context,omitempty" validate:"omitnil,utf8,nonul,notblank,maxbytes=64000"`
}

// Image is one picture of a prompt: standard padded base64 of the file (RH12).
type Image struct {
	Mime       string `json:"mime" validate:"required,oneof=image/png image/jpeg image/gif image/webp"`
	DataBase64 string `json:"dataBase64" validate:"required"`
}

// Workspace names, in opaque ids, where the prompt was written.
type Workspace struct {
	ID        string `json:"id" validate:"required,relayid"`
	TargetRef string `json:"targetRef" validate:"required,relayid"`
}

// RunControl stops one turn (RH51, RH37). Action is always "interrupt".
type RunControl struct {
	Type             string `json:"type" validate:"required,eq=run.control"`
	RunID            string `json:"runId" validate:"required,relayid"`
	Action           string `json:"action" validate:"required,eq=interrupt"`
	Reason           string `json:"reason" validate:"required,utf8,nonul,notblank,maxbytes=800"`
	TurnID           string `json:"turnId" validate:"required,vturn"`
	RuntimeBindingID string `json:"runtimeBindingId" validate:"required,relayid"`
	RuntimeThreadID  string `json:"runtimeThreadId" validate:"required,vthread"`
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
