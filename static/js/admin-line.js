// The line of a page of admins: it follows the views that the page names, and hands on
// what changes in them.
import { byId } from './dom.js';
import { showLine } from './shell.js';
import { Line, probe, socketURL } from './socket.js';
import { setServerTime } from './time.js';

/** @typedef {{view: string, target: string, op: string, html?: string}} Patch */

const boot = JSON.parse(byId('boot').textContent ?? '{}');

/** The views of this page. @type {{view: string, filter?: object}[]} */
export const followed = boot.views ?? [];

/**
 * @param {(patch: Patch) => void} onPatch
 * @param {() => void} onFollowed the views are followed: what changed since the page was rendered, or while the line was down, is not told by patches
 */
export function openLine(onPatch, onFollowed) {
  const line = new Line({
    url: socketURL(boot.socket),
    probe: () => probe(boot.socket),
    onState: (state, detail) => showLine(state, detail, boot.base),
    onPush: (push) => {
      if (push.type === 'admin.patch') onPatch(/** @type {any} */ (push));
    },
    onLive: (welcome) => {
      setServerTime(welcome.serverTime);
      void follow();
    },
  });

  async function follow() {
    for (const { view, filter } of followed) {
      try {
        await line.request('admin.follow', { view, filter });
      } catch {
        return;
      }
    }
    onFollowed();
  }

  addEventListener('online', () => line.wake());
  document.addEventListener('visibilitychange', () => { if (!document.hidden) line.wake(); });
  line.open();
}

/** The page as the server renders it now; null if it cannot be had. @returns {Promise<Document | null>} */
export async function freshPage() {
  try {
    const response = await fetch(location.pathname + location.search, { cache: 'no-store', redirect: 'error' });
    if (!response.ok) return null;
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    // A parser without script makes elements of what is for browsers without script.
    for (const element of page.querySelectorAll('noscript')) element.remove();
    return page;
  } catch {
    return null;
  }
}
