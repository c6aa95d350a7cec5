import type { Page, WebSocketRoute } from '@playwright/test';
import { Chat, expect, test } from './fixtures.ts';

const THREAD = '019ad3c2-0001-7c3e-9b1e-2f6a1d6c0a11';
const TURN = '019ad3c2-7b11-7c3e-9b1e-2f6a1d6c0a12';

/** The page with a gateway behind it that the test plays: for faults and loads that the demo model does not make. */
async function scripted(page: Page, chat: Chat, { refusals = 0 } = {}): Promise<{ push: (frame: unknown) => void; line: () => WebSocketRoute; asked: any[] }> {
  const asked: any[] = [];
  let socket: WebSocketRoute | null = null;
  const thread = {
    id: THREAD, title: 'Scripted', model: null, createdAt: new Date().toISOString(), updatedAt: new Date().toISOString(),
    latestSeq: 1, lastReadSeq: 1, waiting: 0, cancellationRecoveryPending: false, turn: { turnId: TURN, status: 'running' },
  };
  const answers: Record<string, (frame: any) => object> = {
    'threads.list': () => ({ threads: [thread] }),
    'threads.follow': () => ({ events: [], latestSeq: 0 }),
    'models.list': () => ({ models: [] }),
    'message.send': (frame) => ({ threadId: THREAD, eventId: frame.clientEventId, turnId: TURN, disposition: 'started' }),
    'thread.open': () => ({
      thread, latestSeq: 1, more: false,
      events: [{ id: 'e1', threadId: THREAD, seqId: 1, eventType: 'input.prompt', turnId: TURN, content: null, createdAt: thread.createdAt, userMessage: { version: 1, parts: [{ type: 'text', text: 'go' }] } }],
      turn: { turnId: TURN, status: 'running', offset: 0, next: 0, text: '' },
    }),
  };
  await page.routeWebSocket(/\/ws$/, (route) => {
    socket = route;
    route.onMessage((data) => {
      const frame = JSON.parse(String(data));
      asked.push(frame);
      if (frame.type === 'thread.open' && frame.sinceSeq !== undefined && refusals-- > 0) {
        route.send(JSON.stringify({ re: frame.id, ok: false, error: { code: 'rate_limited', message: '', retryable: true, retryAfterMs: 100 } }));
        return;
      }
      route.send(JSON.stringify({ re: frame.id, ok: true, ...answers[frame.type]?.(frame) }));
    });
    route.send(JSON.stringify({ type: 'welcome', protocol: 'fairlead.client.v1', epoch: 'e', limits: { frameBytes: 1 << 20 }, pingMs: 25_000 }));
  });
  await chat.open();
  await chat.say('go');
  await expect(chat.answers).toHaveCount(1);
  return { push: (frame) => socket?.send(JSON.stringify(frame)), line: () => socket as WebSocketRoute, asked };
}

const event = (seqId: number, eventType: string, rest: object) => ({
  type: 'thread.events', threadId: THREAD, latestSeq: seqId,
  events: [{ id: `e${seqId}`, threadId: THREAD, seqId, eventType, content: null, createdAt: new Date().toISOString(), turnId: TURN, ...rest }],
});

test('F40 a long answer never freezes the page, and its end costs no more than its beginning', async ({ page, chat }) => {
  const { push } = await scripted(page, chat);
  // Processor time of the page's main thread: other programs on this machine do not count.
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
  const busy = async () => {
    const { metrics } = await cdp.send('Performance.getMetrics');
    return 1000 * (metrics.find((metric) => metric.name === 'TaskDuration')?.value ?? NaN);
  };
  const stream = chat.last.getByTestId('stream');
  const length = () => stream.evaluate((element) => element.textContent?.length ?? 0);
  const piece = '**a** and some words of an answer that goes on and on, without an end in sight.\n'.repeat(6);
  const costs: number[] = [];
  let at = 0;
  for (let batch = 0; batch < 60; batch++) {
    const before = await busy();
    for (let i = 0; i < 10; i++) {
      push({ type: 'turn.delta', threadId: THREAD, turnId: TURN, offset: at, next: at + piece.length, text: piece });
      at += piece.length;
    }
    await expect.poll(length).toBeGreaterThan(at - 10 * piece.length);
    await page.waitForTimeout(50);
    costs.push((await busy()) - before);
  }
  await expect.poll(length).toBeGreaterThan(280_000);
  const middle = (list: number[]) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)] ?? NaN;
  // 100 deltas a second: ten of them, all that they cause included, in less than their tenth of a second.
  expect(middle(costs), costs.map(Math.round).join(' ')).toBeLessThan(100);
  expect(middle(costs.slice(40)) / middle(costs.slice(5, 25)), costs.map(Math.round).join(' ')).toBeLessThan(3);
});

test('finished blocks replace their text, and the stored answer replaces both', async ({ page, chat }) => {
  const { push } = await scripted(page, chat);
  push({ type: 'turn.delta', threadId: THREAD, turnId: TURN, offset: 0, next: 12, text: '# Head\n\nnext' });
  await expect(chat.last).toContainText('# Head');
  push({ type: 'turn.block', threadId: THREAD, turnId: TURN, from: 0, to: 8, html: '<h1>Head</h1>' });
  await expect(chat.last.locator('h1')).toHaveText('Head');
  await expect(chat.last).not.toContainText('# Head');
  await expect(chat.last).toContainText('next');
  push(event(2, 'output.message', { content: '# Head\n\nnext', html: '<h1>Head</h1><p>next, <a href="https://example.org">stored</a></p>', from: 0, to: 12 }));
  push(event(3, 'turn.completed', {}));
  await chat.done();
  await expect(chat.last.locator('h1')).toHaveCount(1);
  await expect(chat.last.getByRole('link')).toHaveAttribute('rel', /noopener/);
});

test('hostile text stays text, in the stream and in a title', async ({ page, chat }) => {
  const { push } = await scripted(page, chat);
  const hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
  push({ type: 'turn.delta', threadId: THREAD, turnId: TURN, offset: 0, next: hostile.length, text: hostile });
  await expect(chat.last).toContainText('<img src=x');
  push({ type: 'threads.events', latestSeq: 1, events: [{ seqId: 1, kind: 'renamed', threadId: THREAD, title: hostile, createdAt: new Date().toISOString() }] });
  await expect(page.getByTestId('thread-title')).toHaveText(hostile);
  await expect(page.locator('main img, main script')).toHaveCount(0);
});

test('a failure names its cause and its cure, and what came stays', async ({ page, chat }) => {
  const { push } = await scripted(page, chat);
  push(event(2, 'output.partial', { content: 'half an', from: 0, to: 7 }));
  push(event(3, 'turn.failed', { error: 'model_credential_invalid' }));
  await chat.done('failed');
  await expect(chat.last).toContainText('half an');
  await expect(chat.last.getByTestId('why')).toContainText('The provider refused the key.');
  await chat.last.getByRole('button', { name: 'Edit and resend' }).click();
  await expect(chat.message).toHaveValue('go');
});

test('F02 a reader who was too slow resumes from the last byte and event', async ({ page, chat }) => {
  const { push, line, asked } = await scripted(page, chat);
  push({ type: 'turn.delta', threadId: THREAD, turnId: TURN, offset: 0, next: 4, text: 'one ' });
  await expect(chat.last).toContainText('one');
  await line().close({ code: 4408 });
  await expect.poll(() => asked.filter((frame) => frame.type === 'thread.open').length).toBe(2);
  const again = asked.filter((frame) => frame.type === 'thread.open')[1];
  expect(again.sinceSeq).toBe(1);
  expect(again.turn).toEqual({ turnId: TURN, offset: 4 });
  push({ type: 'turn.delta', threadId: THREAD, turnId: TURN, offset: 2, next: 7, text: 'e two' });
  await expect(chat.last.getByTestId('stream')).toHaveText('one two');
});

test('text runs as its script does, and code from left to right', async ({ page, chat }) => {
  const { push } = await scripted(page, chat);
  const direction = (of: string) => page.locator(of).evaluate((element) => getComputedStyle(element).direction);
  push({ type: 'threads.events', latestSeq: 1, events: [{ seqId: 1, kind: 'renamed', threadId: THREAD, title: 'שלום (עולם)', createdAt: new Date().toISOString() }] });
  await expect(page.getByTestId('thread-title')).toHaveText('שלום (עולם)');
  push(event(2, 'output.message', { content: 'x', html: '<p>مرحبا!</p><ul><li>واحد</li></ul><pre><code>let x = 1;</code></pre><p>left</p>', from: 0, to: 1 }));
  push(event(3, 'turn.completed', {}));
  await chat.done();
  for (const of of ['#thread-title', '#threads .title', '.prose > p:first-child', '.prose li']) expect(await direction(of), of).toBe('rtl');
  for (const of of ['.prose pre', '.prose > p:last-child']) expect(await direction(of), of).toBe('ltr');
  await chat.message.fill('مرحبا');
  expect(await direction('#message')).toBe('rtl');
});

test('a thread that cannot be opened now is opened a little later', async ({ page, chat }) => {
  const { asked, line } = await scripted(page, chat, { refusals: 1 });
  await line().close({ code: 4408 });
  await expect.poll(() => asked.filter((frame) => frame.type === 'thread.open').length).toBe(3);
  await expect(page.getByTestId('toast')).toHaveCount(1);
});
