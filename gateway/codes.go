package gateway

import (
	"net/http"

	"github.com/fairlead/fairlead/relay/wire"
)

// Codes of the account side (protocol.md §1); those shared with hosts are in
// wire.
const (
	CodeNotRecallable            wire.Code = "not_recallable"
	CodeTurnNotActive            wire.Code = "turn_not_active"
	CodeTurnActive               wire.Code = "turn_active"
	CodeClientThreadIDInUse      wire.Code = "client_thread_id_in_use"
	CodeClientEventIDInUse       wire.Code = "client_event_id_in_use"
	CodeModelUnknown             wire.Code = "model_unknown"
	CodeModelNotAllowed          wire.Code = "model_not_allowed"
	CodeRouteUnavailable         wire.Code = "route_unavailable"
	CodeQueueAssociationRequired wire.Code = "queue_association_required"
	CodeCredentialsInvalid       wire.Code = "credentials_invalid"
	CodeInsufficientCredits      wire.Code = "insufficient_credits"
	CodeQuotaExhausted           wire.Code = "quota_exhausted"
	CodeInvitationInvalid        wire.Code = "invitation_invalid"
	CodeLastAdmin                wire.Code = "last_admin"
	CodeSetupLinkInvalid         wire.Code = "setup_link_invalid"
	// CodeHostDraining and CodeHostOutdated say why a prompt was not offered to its host
	// (they are turn.state reasons too); CodeSuperseded that a newer connection took over.
	CodeHostDraining wire.Code = "host_draining"
	CodeHostOutdated wire.Code = "host_outdated"
	CodeSuperseded   wire.Code = "superseded"
)

// HTTPStatus maps a code to the status of an HTTP answer; an unknown code is 500.
func HTTPStatus(code wire.Code) int {
	switch code {
	case "":
		return http.StatusOK
	case wire.CodeBadRequest, CodeNotRecallable, CodeTurnNotActive, CodeClientThreadIDInUse,
		CodeModelUnknown, CodeModelNotAllowed, CodeSetupLinkInvalid, CodeInvitationInvalid:
		return http.StatusBadRequest
	case wire.CodeUnauthorized, CodeCredentialsInvalid, wire.CodeInviteInvalid:
		return http.StatusUnauthorized
	case CodeInsufficientCredits:
		return http.StatusPaymentRequired
	case wire.CodeForbidden, wire.CodeHostRevoked:
		return http.StatusForbidden
	case wire.CodeNotFound:
		return http.StatusNotFound
	case CodeClientEventIDInUse, CodeTurnActive, CodeLastAdmin, wire.CodeHostExists, wire.CodeChallengeStale:
		return http.StatusConflict
	case wire.CodeFrameTooLarge, wire.CodePromptTooLarge:
		return http.StatusRequestEntityTooLarge
	case wire.CodeRateLimited, CodeQuotaExhausted:
		return http.StatusTooManyRequests
	case CodeRouteUnavailable, wire.CodeHostOffline, wire.CodeStorageUnavailable, wire.CodeShuttingDown:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
