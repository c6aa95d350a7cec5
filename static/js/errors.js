// What an error code means to the person in front of the page: the cause, and
// what to do about it. One table for commands and for turns.

/** @typedef {{cause: string, cure: string}} Explanation */

/** @type {Record<string, [string, string]>} */
const TABLE = {
  // Commands (protocol.md §1).
  bad_request: ['The server did not accept this.', 'Reload the page; it may be older than the server.'],
  blank: ['The message is empty.', 'Write something first.'],
  nul: ['The message holds a character that cannot be stored.', 'Remove the NUL character; it often comes with text pasted from a terminal.'],
  not_recallable: ['This message has already started.', 'Stop its answer if you do not want it.'],
  turn_not_active: ['This answer has already ended.', 'Nothing to stop.'],
  model_unknown: ['This model is no longer offered.', 'Choose another one below the message.'],
  model_not_allowed: ['Your organisation does not allow this model for you.', 'Choose another one below the message.'],
  insufficient_credits: ['Your organisation has no credits left, or is suspended.', 'Ask your admin, or choose a model that runs on your own key.'],
  quota_exhausted: ['You have reached your limit for today.', 'Go on tomorrow, or ask your admin for more.'],
  client_thread_id_in_use: ['This thread exists already.', 'Reload the page.'],
  client_event_id_in_use: ['This message was sent before in another form.', 'Look at the thread; send again what is missing.'],
  unauthorized: ['Your session ended.', 'Log in again; what you typed is kept.'],
  forbidden: ['You may not do this.', 'Ask your admin.'],
  not_found: ['It does not exist, or no longer does.', 'Go back to your threads.'],
  frame_too_large: ['The message is too long.', 'Split it into shorter ones.'],
  prompt_too_large: ['The message is too long.', 'Split it into shorter ones.'],
  rate_limited: ['Too much at once.', 'Wait a moment; it is tried again by itself.'],
  internal: ['Something went wrong on the server.', 'Try again. If it stays, give your admin the time and this thread.'],
  storage_unavailable: ['The server cannot write to its disk.', 'Tell your admin. Your message is kept here and tried again.'],
  shutting_down: ['The server is restarting.', 'It goes on by itself in a moment.'],
  disconnected: ['There is no connection to the server.', 'It goes on by itself when the line is back.'],
  route_unavailable: ['No provider of this model is ready now.', 'Try again later or choose another model.'],
  // Ends of turns (protocol.md §2.2).
  model_failed: ['The provider reported an error.', 'Send the message again; if it stays, choose another model.'],
  model_unreachable: ['The provider could not be reached.', 'Ask your admin to check the host’s network and the provider’s address.'],
  model_rate_limited: ['The provider asks for a pause.', 'Send the message again in a while, or choose another model.'],
  model_overloaded: ['The provider is overloaded.', 'Send the message again in a while, or choose another model.'],
  model_credential_invalid: ['The provider refused the key.', 'Ask your admin to renew the key on the host.'],
  model_not_found: ['The provider does not know this model.', 'Choose another model, or ask your admin to mend the route.'],
  model_request_refused: ['The provider refused the request, often because the thread is too long.', 'Start a new thread or choose a model with more context.'],
  model_refused: ['The model declined to answer.', 'Put the question differently.'],
  model_stream_cut: ['The provider broke off in the middle of the answer.', 'What came is kept above. Send the message again.'],
  model_stream_invalid: ['The provider sent damaged data.', 'What came is kept above. Send the message again.'],
  model_stalled: ['The provider fell silent.', 'Send the message again; if it stays, choose another model.'],
  model_output_incomplete: ['The answer hit the model’s length limit and is incomplete.', 'Ask for a shorter answer. The unfinished text is under “What happened?”.'],
  model_output_empty: ['The model answered with nothing.', 'Send the message again or put it differently.'],
  model_tool_call_unsupported: ['The model wanted to use a tool, and this thread has none.', 'Put the question so that it needs no tool.'],
  no_host: ['No host is set up to run models.', 'Ask your admin to enrol a host.'],
  host_offline: ['The host that runs this model is offline.', 'Ask your admin to start it, then send again.'],
  host_lost: ['The host that ran this answer went away.', 'Send the message again when it is back.'],
  host_restarted: ['The host restarted during this answer.', 'What came is kept above. Send the message again.'],
  turn_deadline: ['The answer took longer than allowed.', 'Ask for less in one message.'],
};

/** Why a turn has not started yet (turn.state.reason). @type {Record<string, string>} */
const REASONS = {
  host_offline: 'waiting for the host to come back',
  host_draining: 'the host takes no new messages now',
  host_outdated: 'waiting for the host to be updated',
  no_room: 'waiting for a free place on the host',
  route_cooling: 'the provider asked for a pause',
  org_queue: 'waiting for a free place in your organisation',
  cancelling: 'stopping',
};

/** @param {string} code @returns {Explanation} */
export function explain(code) {
  const [cause, cure] = TABLE[code] ?? [`It failed (${code}).`, 'Try again. If it stays, tell your admin this code.'];
  return { cause, cure };
}

/**
 * What a refused command means. A field's rule says more than the code.
 * @param {{code: string, fields?: {path: string, rule: string}[]}} error
 */
export function explainError(error) {
  const rule = error.fields?.[0]?.rule;
  return explain(error.code === 'bad_request' && rule && TABLE[rule] ? rule : error.code);
}

/** @param {string} reason */
export function explainReason(reason) {
  return REASONS[reason] ?? reason.replaceAll('_', ' ');
}

/** The codes that have a text of their own; for tests. */
export const KNOWN_CODES = Object.keys(TABLE);
