package wire

// Codes that any part may answer with.
const (
	CodeInternal           Code = "internal"
	CodeBadRequest         Code = "bad_request"
	CodeUnauthorized       Code = "unauthorized"
	CodeForbidden          Code = "forbidden"
	CodeNotFound           Code = "not_found"
	CodeFrameTooLarge      Code = "frame_too_large"
	CodePromptTooLarge     Code = "prompt_too_large"
	CodeRateLimited        Code = "rate_limited"
	CodeStorageUnavailable Code = "storage_unavailable"
	CodeShuttingDown       Code = "shutting_down"
)

// Codes of a relay host (relay-host.md §2.9).
const (
	CodeOwnerBusy              Code = "relay_owner_busy"
	CodeStateUntrusted         Code = "relay_state_untrusted"
	CodeStoreUnavailable       Code = "relay_store_unavailable"
	CodeOwnerInvalid           Code = "relay_owner_invalid"
	CodeOwnerUnbound           Code = "relay_owner_unbound"
	CodeOwnerMismatch          Code = "relay_owner_mismatch"
	CodeTargetMismatch         Code = "relay_target_mismatch"
	CodeCommandInvalid         Code = "relay_command_invalid"
	CodeImageInvalid           Code = "relay_image_invalid"
	CodeReasoningInvalid       Code = "relay_reasoning_invalid"
	CodeRunNotAuthorized       Code = "relay_run_not_authorized"
	CodeOtherRunUnsettled      Code = "relay_other_run_unsettled"
	CodeTurnActive             Code = "relay_turn_active"
	CodeInferenceBusy          Code = "relay_inference_busy"
	CodeBindingMismatch        Code = "relay_binding_mismatch"
	CodeRoutePinned            Code = "relay_route_pinned"
	CodeRouteNotActive         Code = "relay_route_not_active"
	CodeOutputLimitUnsupported Code = "relay_output_limit_unsupported"
	CodeProviderNotReady       Code = "relay_provider_not_ready"
	CodeCatalogEmpty           Code = "relay_catalog_empty"
	CodeSystemPromptLate       Code = "relay_system_prompt_late"
	CodeTurnMismatch           Code = "relay_turn_mismatch"
	CodeOperationReused        Code = "relay_operation_reused"
	CodeOperationMismatch      Code = "relay_operation_mismatch"
	CodeStartFailed            Code = "relay_start_failed"
	CodeNativeUnavailable      Code = "relay_native_unavailable"
	CodeInterruptUnknown       Code = "relay_interrupt_unknown"
	CodeInterruptOtherRun      Code = "relay_interrupt_other_run"
	CodeInterruptFailed        Code = "relay_interrupt_failed"
	CodePersistFailed          Code = "relay_persist_failed"
)

// Codes with which a turn ends other than completed (protocol.md §2.2).
const (
	CodeModelFailed              Code = "model_failed"
	CodeModelUnreachable         Code = "model_unreachable"
	CodeModelRateLimited         Code = "model_rate_limited"
	CodeModelOverloaded          Code = "model_overloaded"
	CodeModelCredentialInvalid   Code = "model_credential_invalid"
	CodeModelNotFound            Code = "model_not_found"
	CodeModelRequestRefused      Code = "model_request_refused"
	CodeModelRefused             Code = "model_refused"
	CodeModelStreamCut           Code = "model_stream_cut"
	CodeModelStreamInvalid       Code = "model_stream_invalid"
	CodeModelStalled             Code = "model_stalled"
	CodeModelOutputIncomplete    Code = "model_output_incomplete"
	CodeModelOutputEmpty         Code = "model_output_empty"
	CodeModelToolCallUnsupported Code = "model_tool_call_unsupported"
	CodeNoHost                   Code = "no_host"
	CodeHostOffline              Code = "host_offline"
	CodeHostLost                 Code = "host_lost"
	CodeHostRestarted            Code = "host_restarted"
	CodeTurnDeadline             Code = "turn_deadline"
)

// Codes with which a gateway refuses a relay host.
const (
	// CodeInviteInvalid is for an invitation that is unknown, used or too old; which of
	// them is not told.
	CodeInviteInvalid Code = "invite_invalid"
	// CodeHostExists is for an id under which another host is joined.
	CodeHostExists Code = "host_exists"
	// CodeHostRevoked is for a host, or a key, that an admin has revoked.
	CodeHostRevoked Code = "host_revoked"
	// CodeChallengeStale is for a nonce that is not of this gateway, too old, or was
	// used: a new one helps.
	CodeChallengeStale Code = "challenge_stale"
)

// retryable tells whether the same command with the same key may succeed later.
func retryable(c Code) bool {
	switch c {
	case CodeOwnerBusy, CodeInferenceBusy, CodeTurnActive, CodePersistFailed, CodeStartFailed,
		CodeNativeUnavailable, CodeInterruptFailed, CodeRateLimited, CodeStorageUnavailable,
		CodeShuttingDown, CodeInternal, CodeHostOffline, CodeChallengeStale:
		return true
	}
	return false
}
