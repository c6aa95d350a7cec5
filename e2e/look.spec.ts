import { Chat, expect, expectAccessible, test } from './fixtures.ts';

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(`accessible, ${colorScheme}`, () => {
    test.use({ colorScheme });

    test('login', async ({ browser, installation }) => {
      const context = await browser.newContext({ colorScheme, storageState: { cookies: [], origins: [] } });
      const page = await context.newPage();
      await page.goto(`${installation.server.url}/login`);
      await expectAccessible(page);
      await context.close();
    });

    test('a page that does not exist', async ({ page }) => {
      await page.goto('/chats/not-a-thread');
      await expect(page.getByTestId('error-page')).toBeVisible();
      await expectAccessible(page);
    });

    test('chat: new, running with a queue, stopped', async ({ page, chat }) => {
      await chat.open();
      await expectAccessible(page);
      await chat.say('Show me what you can do');
      await chat.done();
      await chat.startLong();
      await chat.say('count to 2000');
      await expect(chat.waiting).toHaveCount(1);
      await expectAccessible(page);
      await chat.open();
      await chat.startLong();
      await chat.stop.click();
      await chat.done('cancelled');
      await expectAccessible(page);
      await chat.last.getByTestId('what-happened').click();
      await expect(page.getByTestId('turn-dialog').locator('.timeline li')).not.toHaveCount(0);
      await expectAccessible(page);
    });

    test('admin', async ({ page, chat }) => {
      await chat.open();
      await chat.say('count to 2');
      await chat.done();
      await page.goto('/admin');
      await expect(page.getByTestId('turn-row').first()).toBeVisible();
      await expectAccessible(page);
    });
  });
}

test('the theme is kept, in this and the next page', async ({ page, chat }) => {
  await chat.open();
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  const toggle = page.getByRole('button', { name: /^Theme/ });
  await toggle.click();
  await toggle.click();
  await expect(toggle).toHaveAccessibleName('Theme: dark');
  const dark = await paper();
  expect(dark).not.toBe(light);
  await page.reload();
  expect(await paper()).toBe(dark);
  await page.goto('/admin');
  expect(await paper()).toBe(dark);
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true });

  test('the whole of a thread fits, the list is a drawer', async ({ page, chat }) => {
    await chat.open();
    await chat.say('Show me what you can do');
    await chat.done();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(wide).toBeLessThanOrEqual(0);
    await expect(page.locator('#side')).toBeHidden();
    await page.getByRole('button', { name: 'Threads' }).tap();
    await expect(page.locator('#side')).toBeVisible();
    await expectAccessible(page);
    for (const target of await page.locator('#side button:visible, #side a:visible').all()) {
      expect((await target.boundingBox())?.height ?? 0, await target.innerText()).toBeGreaterThanOrEqual(44);
    }
    await page.keyboard.press('Escape');
    await expect(page.locator('#side')).toBeHidden();
    await page.getByRole('button', { name: 'Threads' }).tap();
    await page.getByTestId('new-thread').tap();
    await expect(page.locator('#side')).toBeHidden();
    await expect(page.getByTestId('empty')).toBeVisible();
  });
});

test('reduced motion: nothing moves by itself', async ({ browser, installation }) => {
  const context = await browser.newContext({ reducedMotion: 'reduce', storageState: installation.state, baseURL: installation.server.url });
  const chat = new Chat(await context.newPage());
  await chat.open();
  await chat.startLong();
  expect(await chat.page.evaluate(() => document.getAnimations().length)).toBe(0);
  await chat.stop.click();
  await chat.done('cancelled');
  await context.close();
});

test('on paper: the whole thread in ink, and nothing to press', async ({ page, chat }) => {
  await chat.open();
  for (let i = 0; i < 2; i++) {
    await chat.say('Show me what you can do');
    await chat.done();
  }
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  const cut = await page.getByTestId('transcript').evaluate((log) => ({ by: log.scrollHeight - log.clientHeight, height: log.clientHeight }));
  expect(cut.by).toBeLessThanOrEqual(1);
  expect(cut.height).toBeGreaterThan(860);
  await expect(chat.message).toBeHidden();
  await expect(page.locator('#side')).toBeHidden();
  expect(await page.evaluate(() => getComputedStyle(document.body).color)).toBe('rgb(21, 34, 44)');
});
