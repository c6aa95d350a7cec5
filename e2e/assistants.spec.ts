import type { Page } from '@playwright/test';
import { Chat, expect, expectAccessible, test } from './fixtures.ts';

/** Says one command on a line of its own. */
async function command(page: Page, frame: object): Promise<any> {
  return page.evaluate((said) => new Promise((resolve, reject) => {
    const socket = new WebSocket('/ws', 'fairlead.client.v1');
    socket.onopen = () => socket.send(JSON.stringify({ id: 'one', ...said }));
    socket.onerror = reject;
    socket.onmessage = ({ data }) => {
      const reply = JSON.parse(data);
      if (reply.re !== 'one') return;
      socket.close();
      resolve(reply);
    };
  }), frame);
}

test('a new thread is with the assistant that was chosen, and its header says so', async ({ chat, page }) => {
  await chat.open();
  await expect(page.getByTestId('empty')).toBeVisible();
  await expect(page.getByTestId('assistant')).toBeHidden();
  const made = await command(page, { type: 'agent.create', displayName: 'Tide pilot', description: 'Knows the Channel Islands', instructions: 'Answer in knots.' });
  expect(made.ok, JSON.stringify(made)).toBe(true);

  await page.reload();
  await chat.live();
  const choice = page.getByLabel('Assistant', { exact: true });
  await choice.selectOption('Tide pilot');
  await expect(page.getByTestId('assistant')).toContainText('Knows the Channel Islands');
  await expect(page.getByRole('link', { name: 'Manage assistants' })).toHaveAttribute('href', /\/settings\?tab=assistants$/);
  await expectAccessible(page);
  await chat.say('count to 3');
  await chat.done();
  await expect(page.getByTestId('thread-agent')).toHaveText('Tide pilot');
  await page.reload();
  await expect(page.getByTestId('thread-agent')).toHaveText('Tide pilot');

  // The choice is made for one thread; a link can make it too.
  await page.goto('/');
  await chat.live();
  await expect(choice).not.toHaveValue(made.agent.id);
  await chat.open(`/?agent=${made.agent.id}`);
  await expect(choice).toHaveValue(made.agent.id);
  await page.setViewportSize({ width: 375, height: 740 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBeLessThanOrEqual(0);
  await command(page, { type: 'agent.delete', agentId: made.agent.id });
  await page.goto('/');
  await new Chat(page).live();
  await expect(page.getByTestId('assistant')).toBeHidden();
});
