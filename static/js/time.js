// Times as people say them, the exact one on hover.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How far this machine's clock is behind the server's, in ms; what is less than the way of a message is none. */
let behind = 0;
const NOTICED = 2_000;

/** @param {string | undefined} iso the server's time, just now */
export function setServerTime(iso) {
  const ms = new Date(iso ?? '').getTime() - Date.now();
  behind = Math.abs(ms) > NOTICED ? ms : 0;
}

/** The time that the server's times are compared with. */
function serverNow() {
  return new Date(Date.now() + behind);
}

/** @param {Date} a @param {Date} b */
function sameDay(a, b) {
  return a.toDateString() === b.toDateString();
}

/** @param {Date} at @param {Date} [now] */
export function relative(at, now = serverNow()) {
  const ms = now.getTime() - at.getTime();
  const size = Math.abs(ms);
  if (size < 5_000) return 'just now';
  const say = (/** @type {string} */ amount) => (ms >= 0 ? `${amount} ago` : `in ${amount}`);
  if (size < MINUTE) return say(`${Math.round(size / 1000)} s`);
  if (size < HOUR) return say(`${Math.round(size / MINUTE)} min`);
  if (size < DAY) return say(`${Math.round(size / HOUR)} h`);
  if (size < 7 * DAY) return say(`${Math.round(size / DAY)} d`);
  return at.toLocaleDateString(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
}

/** The time of a list entry: the hour today, else the day. @param {Date} at @param {Date} [now] */
export function listTime(at, now = new Date()) {
  if (sameDay(at, now)) return at.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
  return at.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
}

/** @param {Date} at */
export function exact(at) {
  return at.toLocaleString(undefined, { dateStyle: 'full', timeStyle: 'medium' });
}

/** The heading under which a thread stands. @param {Date} at @param {Date} [now] */
export function dayGroup(at, now = new Date()) {
  if (sameDay(at, now) || at > now) return 'Today';
  const yesterday = new Date(now);
  yesterday.setDate(now.getDate() - 1);
  if (sameDay(at, yesterday)) return 'Yesterday';
  if (now.getTime() - at.getTime() < 7 * DAY) return 'Last 7 days';
  return at.toLocaleDateString(undefined, { month: 'long', year: 'numeric' });
}

/** A span as in a timeline: 812 ms, 6.2 s, 3 min 4 s. @param {number} ms */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / MINUTE)} min ${Math.round((ms % MINUTE) / 1000)} s`;
}

/** Writes the relative time into all marked elements. @param {ParentNode} root */
export function refreshTimes(root) {
  const now = serverNow();
  for (const element of root.querySelectorAll('time[data-relative]')) {
    const at = new Date(element.getAttribute('datetime') ?? '');
    if (Number.isNaN(at.getTime())) continue;
    const text = relative(at, now);
    if (element.textContent !== text) element.textContent = text;
  }
}
