import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Chat, expect, setUp, test } from './fixtures.ts';
import { Server } from './server.ts';

/**
 * A provider whose answers last as long as the test wants. "count to 5" is answered
 * with 1 2 3 4 5; "count on" counts until the request is closed or the test lets it
 * finish.
 */
export class Upstream {
  /** The messages of each request, oldest first. */
  readonly requests: { role: string; content: string }[][] = [];
  private readonly running = new Set<() => void>();
  private readonly server: HttpServer;

  private constructor() {
    this.server = createServer((request, response) => void this.answer(request, response));
  }

  static async start(): Promise<Upstream> {
    const upstream = new Upstream();
    await new Promise<void>((resolve) => upstream.server.listen(0, '127.0.0.1', resolve));
    return upstream;
  }

  /** A settings file whose one model is this provider's. */
  settings(folder: string): string {
    const { port } = this.server.address() as AddressInfo;
    process.env.E2E_KEY = 'sk-upstream';
    const file = join(folder, 'settings.yaml');
    writeFileSync(file, `
host:
  max_inflight: 64
  providers:
    - {id: counter, key: counter, name: Counter, api: openai-chat, base_url: "http://127.0.0.1:${port}/v1", api_key_env: E2E_KEY, models: [{id: counter}]}
`);
    return file;
  }

  /** Lets every answer that counts on come to its end. */
  finish(): void {
    for (const end of [...this.running]) end();
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { messages } = JSON.parse(body);
    this.requests.push(messages);
    const asked = String(messages.at(-1)?.content ?? '');
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (choice: object, more = {}) => response.write(`data: ${JSON.stringify({ id: `r${this.requests.length}`, model: 'counter', choices: [choice], ...more })}\n\n`);
    const word = (n: number) => send({ index: 0, delta: { content: n > 1 ? ` ${n}` : '1' } });
    const end = () => {
      send({ index: 0, delta: {}, finish_reason: 'stop' }, { usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 } });
      response.end('data: [DONE]\n\n');
    };
    const to = Number(/count to (\d+)/.exec(asked)?.[1] ?? (/count on/.test(asked) ? Infinity : 3));
    let n = 0;
    while (n < Math.min(to, 50)) word(++n);
    if (n >= to) return end();
    const timer = setInterval(() => (n < to ? word(++n) : stop()), 40);
    const stop = () => {
      clearInterval(timer);
      this.running.delete(stop);
      if (!response.writableEnded && !response.destroyed) end();
    };
    this.running.add(stop);
    response.on('close', stop);
  }
}

/** A test over an installation whose one model is such a provider's. */
export const counterTest = test.extend<{ quiet: void }, { upstream: Upstream }>({
  // Answers that a test left running take up the host's places no longer.
  quiet: [async ({ upstream }, use) => {
    await use();
    upstream.finish();
  }, { auto: true }],

  upstream: [async ({}, use) => {
    const upstream = await Upstream.start();
    await use(upstream);
    await upstream.close();
  }, { scope: 'worker' }],

  installation: [async ({ browser, upstream }, use) => {
    const folder = mkdtempSync(join(tmpdir(), 'fairlead-e2e-settings-'));
    const server = await Server.fresh('--config', upstream.settings(folder));
    const context = await browser.newContext();
    await setUp(await context.newPage(), server);
    const state = await context.storageState();
    await context.close();
    await use({ server, state });
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  }, { scope: 'worker' }],
});

/** Starts an answer that goes on until it is ended. */
export async function running(chat: Chat): Promise<void> {
  await chat.open();
  await chat.say('count on');
  await expect(chat.last).toHaveAttribute('data-status', 'running');
  await expect(chat.last).toContainText('1 2 3 4 5');
}
