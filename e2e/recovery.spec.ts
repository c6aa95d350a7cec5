import { Chat, counted, countedTo, expect, logIn, setUp, test } from './fixtures.ts';
import { test as base } from '@playwright/test';
import { Server } from './server.ts';

base.describe('the server', () => {
  base('F22 a killed server ends “Generating…” when it is back, and the queue goes on', async ({ page }) => {
    const server = await Server.fresh();
    try {
      await setUp(page, server);
      const chat = new Chat(page);
      await chat.live();
      await chat.startLong(2000);
      await chat.say('count to 5');
      await expect(chat.waiting).toHaveCount(1);
      await expect(chat.answers.first()).toContainText(' 50 ');
      await server.kill('SIGKILL');
      await expect(page.getByTestId('live')).toHaveText('Reconnecting');
      await chat.message.fill('count to 6');
      await chat.message.press('Enter');
      await expect(chat.send).toHaveText('Waiting…');
      await server.start();
      await chat.live();
      await expect(chat.answers.first()).toHaveAttribute('data-status', 'failed', { timeout: 30_000 });
      await expect(chat.answers.first().getByTestId('why')).toContainText('restarted');
      expect(countedTo(await chat.text(chat.answers.first()))).toBeGreaterThanOrEqual(50);
      await expect(chat.message).toHaveValue('', { timeout: 30_000 });
      await expect(chat.answers).toHaveCount(3, { timeout: 30_000 });
      await chat.done();
      expect(await chat.text(chat.answers.nth(1))).toBe(counted(5));
      expect(await chat.text()).toBe(counted(6));
      await expect(chat.stop).toBeHidden();
    } finally {
      await server.dispose();
    }
  });

  base('F12 a restart tells the page when to come back; it comes back by itself', async ({ page }) => {
    const server = await Server.fresh();
    try {
      await setUp(page, server);
      const chat = new Chat(page);
      await chat.live();
      await chat.say('count to 3');
      await chat.done();
      await server.kill('SIGTERM');
      await expect(page.getByTestId('live')).not.toHaveAttribute('data-state', 'live');
      await server.start();
      await chat.live();
      await expect(chat.answers).toHaveCount(1);
      await chat.say('count to 4');
      await chat.done();
      await expect(chat.answers).toHaveCount(2);
    } finally {
      await server.dispose();
    }
  });
});

test('F06 when the session ends the text stays, and is sent once after the next login', async ({ browser, installation }) => {
  const context = await browser.newContext({ baseURL: installation.server.url, storageState: { cookies: [], origins: [] } });
  const page = await context.newPage();
  await page.goto('/login');
  await logIn(page);
  const chat = new Chat(page);
  await chat.live();
  await chat.say('count to 3');
  await chat.done();

  const other = await context.newPage();
  await other.goto('/');
  await other.getByRole('button', { name: 'Log out' }).click();
  await expect(other.getByTestId('login-form')).toBeVisible();

  await expect(page.getByTestId('login-again')).toBeVisible();
  await chat.message.fill('count to 9');
  await chat.message.press('Enter');
  await expect(chat.message).toHaveValue('count to 9');
  await page.getByTestId('login-again').click();
  await logIn(page);
  await expect(page).toHaveURL(/\/chats\//);
  await expect(chat.answers).toHaveCount(2);
  await chat.done();
  expect(await chat.text()).toBe(counted(9));
  await expect(chat.message).toHaveValue('');
  await expect(chat.asks).toHaveCount(2);
  await context.close();
});
