import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test as base } from '@playwright/test';
import { Chat, copied, counted, expect, setUp, test } from './fixtures.ts';
import { Server } from './server.ts';

const RELOADS = Number(process.env.E2E_RELOADS ?? 8);

test('F01 F02 every number once and in order, however often the page is reloaded', async ({ page, chat }) => {
  test.setTimeout(60_000 + RELOADS * 3_000);
  await chat.open();
  await chat.startLong(2000);
  for (let i = 0; i < RELOADS; i++) {
    await page.waitForTimeout(Math.random() * 400); // how far it gets is the point
    await page.reload({ waitUntil: Math.random() < 0.5 ? 'commit' : 'load' });
  }
  await expect(chat.last).toHaveAttribute('data-status', 'completed', { timeout: 120_000 });
  expect(await chat.text()).toBe(counted(2000));
});

// Recorded streams of real providers. E2E_PROVIDER_URL names another server that
// replays them under the same model names.
const RECORDINGS = new URL('../relay/provider/testdata/recordings/', import.meta.url).pathname;
const RECORDED: [api: string, base: string, names: string[]][] = [
  ['openai-chat', '/v1', ['openai-chat-text', 'mistral-chat-text', 'xai-chat-text', 'deepseek-chat-reasoning']],
  ['openai-responses', '/v1', ['lmstudio-responses-text', 'xai-responses-reasoning']],
  ['anthropic-messages', '', ['anthropic-messages-text', 'anthropic-messages-tool']],
];

base('F34 recorded streams stand in the page as they were recorded', async ({ page }) => {
  const replayer = await replay();
  const provider = process.env.E2E_PROVIDER_URL ?? replayer.url;
  const settings = join(base.info().outputPath(), 'settings.yaml');
  writeFileSync(settings, `host:\n  providers:\n${RECORDED.map(([api, path, names]) => `
    - {id: ${api}, key: ${api}, name: ${api}, api: ${api}, base_url: "${provider}${path}", api_key_env: E2E_KEY, models: [${names.map((name) => `{id: ${name}, upstream: "fixture:${name}"}`).join(', ')}]}`).join('')}\n`);
  process.env.E2E_KEY = 'sk-recordings';
  const server = await Server.fresh('--config', settings);
  try {
    await setUp(page, server);
    const chat = new Chat(page);
    for (const name of RECORDED.flatMap(([, , names]) => names)) {
      await chat.open(server.url);
      await page.getByTestId('model').selectOption(name);
      await chat.say(`replay ${name}`);
      await chat.done();
      expect(await source(page), name).toBe(recordedText(name));
    }
  } finally {
    await server.dispose();
    await replayer.close();
  }
});

/** A provider that sends recordings, framed as their APIs frame them. */
async function replay(): Promise<{ url: string; close: () => Promise<void> }> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => { body += chunk; });
    request.on('end', () => {
      const name = String(JSON.parse(body).model).replace('fixture:', '');
      const chat = request.url?.endsWith('/chat/completions');
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const line of lines(name)) response.write(`${chat ? '' : `event: ${JSON.parse(line).type}\n`}data: ${line}\n\n`);
      response.end(chat ? 'data: [DONE]\n\n' : '');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

function lines(name: string): string[] {
  return readFileSync(join(RECORDINGS, `${name}.chunks.txt`), 'utf8').trim().split('\n');
}

/** The Markdown of the last answer, as its copy button gives it. */
async function source(page: import('@playwright/test').Page): Promise<string> {
  return copied(page, () => page.getByTestId('answer').last().getByRole('button', { name: 'Copy', exact: true }).last().click());
}

function recordedText(name: string): string {
  let text = '';
  for (const line of lines(name)) {
    const payload = JSON.parse(line);
    for (const choice of payload.choices ?? []) text += choice.delta?.content ?? '';
    if (payload.type === 'response.output_text.delta') text += payload.delta;
    if (payload.type === 'content_block_delta' && payload.delta.type === 'text_delta') text += payload.delta.text;
  }
  return text;
}
