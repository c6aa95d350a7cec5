import { test as base, expect } from '@playwright/test';
import { ADMIN, Chat, expectAccessible, logIn, setUp } from './fixtures.ts';
import { Server } from './server.ts';

const test = base.extend<{ server: Server }>({
  server: async ({}, use) => {
    const server = await Server.fresh();
    await use(server);
    await server.dispose();
  },
});

test('from nothing to the first answer: setup link, chat, streamed demo answer', async ({ page, server }) => {
  await setUp(page, server);
  const chat = new Chat(page);
  await chat.live();
  await expect(page.getByTestId('empty')).toBeVisible();
  // A machine may be too slow to be asked while the answer runs: what was shown is remembered.
  await page.evaluate(() => {
    const shown: string[] = (window as any).shown = [];
    new MutationObserver((changes) => {
      for (const { oldValue } of changes) shown.push(oldValue ?? '');
    }).observe(document.getElementById('items') as HTMLElement, { attributeFilter: ['data-status'], attributeOldValue: true, subtree: true });
  });
  await chat.say('Hello there');
  await expect(page).toHaveURL(/\/chats\/[0-9a-f-]{36}$/);
  await chat.done();
  expect(await page.evaluate(() => (window as any).shown)).toContain('running');
  await expect(chat.last).toContainText('demo model');
  await expect(chat.last.locator('strong').first()).toBeVisible();
  await expect(page.getByTestId('thread-link')).toHaveCount(1);
  const before = await chat.text();
  await page.reload();
  await chat.done();
  expect(await chat.text()).toBe(before);
});

test('setup names what is wrong beside its field and keeps what was typed', async ({ page, server }) => {
  await page.goto(server.setupLink);
  await page.locator('form').evaluate((form: HTMLFormElement) => { form.noValidate = true; });
  await page.getByLabel('Your name').fill('Mara');
  await page.getByLabel('Email').fill('not an address');
  await page.getByLabel('Password').fill('short');
  await page.getByRole('button', { name: 'Create account' }).click();
  await expect(page.getByTestId('field-email').locator('.field-error')).toBeVisible();
  await expect(page.getByTestId('field-password').locator('.field-error')).toBeVisible();
  await expect(page.getByLabel('Your name')).toHaveValue('Mara');
  await expect(page.getByLabel('Email')).toHaveValue('not an address');
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await expectAccessible(page);
  }
});

test('the setup link works once; afterwards one logs in', async ({ page, server }) => {
  await setUp(page, server);
  await page.context().clearCookies();
  const response = await page.goto(server.setupLink);
  expect(response?.status()).toBe(400);
  await expect(page.getByTestId('error-page')).toBeVisible();
  await page.goto(`${server.url}/`);
  await expect(page.getByTestId('login-form')).toBeVisible();
  await page.getByLabel('Email').fill(ADMIN.email);
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByTestId('form-error')).toBeVisible();
  await expect(page.getByLabel('Email')).toHaveValue(ADMIN.email);
  await logIn(page);
  await expect(page.getByTestId('chat-page')).toBeVisible();
});
