package gateway

// Visibility says who may use an assistant.
type Visibility string

// The visibilities: everybody in the org, or its owner alone.
const (
	VisibilityOrg     Visibility = "org"
	VisibilityPrivate Visibility = "private"
)

// Bounds of an assistant, in bytes.
const (
	MaxAgentInstructions = 16_000
	MaxAgentsPerAccount  = 200
)

// Agent is an assistant as those see it who may use it. Instructions are shown to
// its owner and to admins alone; Mine tells whether the asker may change it.
type Agent struct {
	ID           string     `json:"id"`
	DisplayName  string     `json:"displayName"`
	Description  string     `json:"description"`
	Instructions string     `json:"instructions,omitempty"`
	Model        string     `json:"model,omitempty"`
	Visibility   Visibility `json:"visibility"`
	Default      bool       `json:"default"`
	Mine         bool       `json:"mine"`
	CreatedAt    Time       `json:"createdAt"`
	UpdatedAt    Time       `json:"updatedAt"`
}

// CreateAgentRequest is agent.create. Visibility is private unless it says org.
type CreateAgentRequest struct {
	DisplayName  string     `json:"displayName" validate:"required,utf8,nonul,notblank,max=80"`
	Description  string     `json:"description,omitempty" validate:"utf8,nonul,max=400"`
	Instructions string     `json:"instructions,omitempty" validate:"utf8,nonul,maxbytes=16000"`
	Model        string     `json:"model,omitempty" validate:"omitempty,max=256"`
	Visibility   Visibility `json:"visibility,omitempty" validate:"omitempty,oneof=org private"`
}

// UpdateAgentRequest is agent.update; an absent field stays as it is.
type UpdateAgentRequest struct {
	AgentID      string      `json:"agentId" validate:"required,uuid"`
	DisplayName  *string     `json:"displayName,omitempty" validate:"omitnil,utf8,nonul,notblank,max=80"`
	Description  *string     `json:"description,omitempty" validate:"omitnil,utf8,nonul,max=400"`
	Instructions *string     `json:"instructions,omitempty" validate:"omitnil,utf8,nonul,maxbytes=16000"`
	Model        *string     `json:"model,omitempty" validate:"omitnil,max=256"`
	Visibility   *Visibility `json:"visibility,omitempty" validate:"omitnil,oneof=org private"`
}

// AgentRequest names an assistant: agent.get, agent.delete.
type AgentRequest struct {
	AgentID string `json:"agentId" validate:"required,uuid"`
}

// AgentsReply answers agents.list.
type AgentsReply struct {
	Agents []Agent `json:"agents"`
}

// AgentReply answers agent.create, agent.update and agent.get.
type AgentReply struct {
	Agent Agent `json:"agent"`
}
