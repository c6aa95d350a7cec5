import type { Browser, BrowserContext, Page } from '@playwright/test';
import { ADMIN, Chat, answered, expect, expectAccessible, test } from './fixtures.ts';

const PASSWORD = 'spring tides and neaps';

/** Makes an invitation on the members page and gives its link. */
async function invite(page: Page, email: string, role = 'Member'): Promise<string> {
  await page.goto('/admin/members');
  const form = page.getByTestId('form-invite');
  await form.getByLabel('Email').fill(email);
  await form.getByLabel('Role').selectOption({ label: role });
  await form.getByRole('button', { name: 'Make link' }).click();
  return page.getByTestId('invitation-link').getByRole('textbox').inputValue();
}

/** A browser of somebody else, which has nothing of the admin's. */
async function stranger(browser: Browser, baseURL: string): Promise<BrowserContext> {
  return browser.newContext({ baseURL, storageState: { cookies: [], origins: [] } });
}

/** Joins by a link and ends in the chat. */
async function join(page: Page, link: string, name: string): Promise<void> {
  await page.goto(link);
  await page.getByLabel('Your name').fill(name);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Join' }).click();
  await expect(page.getByTestId('chat-page')).toBeVisible();
}

function member(page: Page, email: string) {
  return page.locator(`[data-email="${email}"]`);
}

test('an admin invites, a guest joins; what is the admins’ is not a member’s', async ({ page, browser, installation }) => {
  const email = 'kim@quay.example';
  const link = await invite(page, email);
  expect(link).toMatch(/\/join\?token=/);
  await expect(page.getByTestId('invitation-row')).toContainText(email);
  await page.goto('/admin/members');
  await expect(page.getByTestId('invitation-link')).toHaveCount(0);

  const context = await stranger(browser, installation.server.url);
  const guest = await context.newPage();
  await guest.goto(link);
  await expect(guest.getByTestId('join-email')).toHaveText(email);
  await expectAccessible(guest);
  await join(guest, link, 'Kim');
  const chat = new Chat(guest);
  await chat.live();
  await chat.say('count to 3');
  await chat.done();

  await expect(guest.getByTestId('admin-link')).toHaveCount(0);
  for (const path of ['/admin', '/admin/members']) {
    const response = await guest.goto(path);
    expect(response?.status()).toBe(403);
    await expect(guest.getByTestId('error-page')).toContainText('Not allowed');
  }
  const again = await guest.goto(link);
  expect(again?.status()).toBe(400);
  await expect(guest.getByTestId('error-page')).toContainText('not valid any more');
  await page.goto('/admin/members');
  await expect(page.getByTestId('invitations').getByText(email)).toHaveCount(0);
  await context.close();
});

test('a disabled member is thrown out of an open page', async ({ page, browser, installation }) => {
  const email = 'jan@quay.example';
  const link = await invite(page, email);
  const context = await stranger(browser, installation.server.url);
  const guest = await context.newPage();
  await join(guest, link, 'Jan');
  await new Chat(guest).live();

  await page.goto('/admin/members');
  const row = member(page, email);
  await row.getByText('Manage').click();
  await row.getByRole('button', { name: 'Disable' }).click();
  await page.getByTestId('confirm').getByRole('button', { name: 'Cancel' }).click();
  await expect(row).toContainText('active');
  await row.getByRole('button', { name: 'Disable' }).click();
  await page.getByTestId('confirm').getByRole('button', { name: 'Disable' }).click();
  await expect(page.getByTestId('notice')).toContainText('disabled');
  await expect(guest.getByTestId('live')).toHaveAttribute('data-state', 'ended');
  await expect(member(page, email)).toContainText('disabled');

  await guest.reload();
  await guest.getByLabel('Email').fill(email);
  await guest.getByLabel('Password').fill(PASSWORD);
  await guest.getByRole('button', { name: 'Log in' }).click();
  await expect(guest.getByTestId('form-error')).toHaveText('Email or password is wrong.');

  await row.getByText('Manage').click();
  await row.getByRole('button', { name: 'Enable' }).click();
  await expect(member(page, email)).toContainText('active');
  await context.close();
});

test('a name that turns its text around turns nothing else, and a long address fits', async ({ page, browser, installation }) => {
  const email = 'an.address.that.is.longer.than.a.phone.is.wide@a.host.that.is.long.example';
  const link = await invite(page, email);
  const context = await browser.newContext({ baseURL: installation.server.url, viewport: { width: 375, height: 740 }, storageState: { cookies: [], origins: [] } });
  const guest = await context.newPage();
  await guest.goto(link);
  expect(await guest.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBeLessThanOrEqual(0);
  await join(guest, link, 'Kim \u202e rimda');
  await page.goto('/admin/members');
  const name = await member(page, email).locator('b').boundingBox();
  const role = await member(page, email).locator('.tag').boundingBox();
  expect((name?.x ?? 999) + (name?.width ?? 999)).toBeLessThanOrEqual(role?.x ?? 0);
  await context.close();
});

test('the last admin stays, and is told why', async ({ page }) => {
  await page.goto('/admin/members');
  const row = member(page, ADMIN.email);
  await row.getByText('Manage').click();
  await row.getByRole('button', { name: 'Make a member' }).click();
  await page.getByTestId('confirm').getByRole('button', { name: 'Make a member' }).click();
  await expect(page.getByTestId('page-error')).toContainText('last admin');
});

test('limits and credits show on the page that refusals link to', async ({ page }) => {
  await page.goto('/admin/members');
  await expect(page.getByTestId('form-entitlement').getByLabel('Credits')).toHaveValue('');
  await page.getByTestId('form-member-defaults').getByLabel('Turns a day').fill('500');
  await answered(page, () => page.getByRole('button', { name: 'Save member limits' }).click());
  await page.getByTestId('form-entitlement').getByLabel('Credits').fill('1200');
  await answered(page, () => page.getByRole('button', { name: 'Save entitlement' }).click());
  await page.goto('/settings?tab=usage');
  await expect(page.getByTestId('credits')).toHaveText('1200');
  await expect(page.locator('li[data-testid=meter-member-daily]')).toContainText(/\d+ of 500/);
  await page.goto('/admin/members');
  await page.getByTestId('form-entitlement').getByLabel('Credits').fill('');
  await answered(page, () => page.getByRole('button', { name: 'Save entitlement' }).click());
  await expect(page.getByTestId('notice')).toBeVisible();
});

test('assistants are made, changed and deleted', async ({ page }) => {
  await page.goto('/settings?tab=assistants');
  await page.getByTestId('new-assistant').click();
  await page.getByLabel('Name', { exact: true }).fill('Pilot');
  await page.getByLabel('Description').fill('Knows the tides');
  await page.getByLabel('Instructions').fill('Answer like a pilot.\nBe brief.');
  await page.getByRole('button', { name: 'Save assistant' }).click();
  const row = page.getByTestId('assistant-row').filter({ hasText: 'Pilot' });
  await expect(row).toContainText('only you');
  await row.getByRole('link', { name: 'Edit Pilot' }).click();
  await expect(page.getByLabel('Instructions')).toHaveValue('Answer like a pilot.\nBe brief.');
  await page.getByLabel('Who may use it').selectOption({ label: 'Everybody in the org' });
  await page.getByRole('button', { name: 'Save assistant' }).click();
  await expect(row).toContainText('everybody in the org');
  await row.getByRole('button', { name: 'Delete Pilot' }).click();
  await page.getByTestId('confirm').getByRole('button', { name: 'Delete' }).click();
  await expect(row).toHaveCount(0);
});

test('a token is shown once and revoked; by keyboard', async ({ page }) => {
  await page.goto('/settings');
  await page.getByText('New token').press('Enter');
  await page.locator('#token-name').fill('laptop');
  await page.locator('#token-name').press('Enter');
  await expect(page.getByTestId('new-token').getByRole('textbox')).toHaveValue(/^fl_/);
  await page.goto('/settings');
  await expect(page.getByTestId('new-token')).toHaveCount(0);
  const row = page.getByTestId('token-row').filter({ hasText: 'laptop' });
  await row.getByRole('button', { name: 'Revoke' }).press('Enter');
  await expect(page.getByTestId('confirm').getByRole('button', { name: 'Cancel' })).toBeFocused();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await expect(row).toHaveCount(0);
});

test('the forms work without script', async ({ browser, installation }) => {
  const context = await browser.newContext({ javaScriptEnabled: false, storageState: installation.state, baseURL: installation.server.url });
  const page = await context.newPage();
  const link = await invite(page, 'noscript@quay.example');
  expect(link).toContain('/join?token=');
  await page.getByTestId('invitation-row').filter({ hasText: 'noscript' }).getByRole('button', { name: 'Take back' }).click();
  await expect(page.getByTestId('notice')).toHaveText('The invitation is taken back.');
  await context.close();
});

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(`accessible, ${colorScheme}`, () => {
    test.use({ colorScheme });

    test('settings and members, calm and refused', async ({ page }) => {
      for (const path of ['/settings', '/settings?tab=usage', '/settings?tab=assistants', '/settings?tab=assistants&edit=new']) {
        await page.goto(path);
        await expectAccessible(page);
      }
      await invite(page, 'axe@quay.example');
      await page.getByText('Manage').first().click();
      await expectAccessible(page);
      await page.getByTestId('form-invite').getByLabel('Email').fill(ADMIN.email);
      await page.getByTestId('form-invite').getByRole('button').click();
      await expect(page.getByTestId('field-email').locator('.field-error')).toBeVisible();
      await expectAccessible(page);
    });
  });
}

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true });

  test('nothing is wider than the screen, and targets are large enough', async ({ page }) => {
    for (const path of ['/settings', '/settings?tab=usage', '/settings?tab=assistants&edit=new', '/admin/members']) {
      await page.goto(path);
      if (path === '/admin/members') await page.getByText('Manage').first().tap();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(wide, path).toBeLessThanOrEqual(0);
      for (const target of await page.locator('main button:visible, main a.btn:visible, main input:visible, main select:visible, main summary:visible').all()) {
        expect((await target.boundingBox())?.height ?? 0, `${path}: ${await target.evaluate((e) => e.outerHTML)}`).toBeGreaterThanOrEqual(44);
      }
      await expectAccessible(page);
    }
  });
});
