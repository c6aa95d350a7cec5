import { Chat, copied, counted, countedTo, expect, still, test } from './fixtures.ts';

test('F01 a reload in mid-answer shows the answer from its first word', async ({ chat, page }) => {
  await chat.open();
  await chat.startLong(6000);
  await expect(chat.last).toContainText(' 60 ');
  await page.reload();
  await expect(chat.last).toContainText('1 2 3 4 5');
  await expect(chat.last).toHaveAttribute('data-status', 'running');
  await expect.poll(async () => countedTo(await chat.text())).toBeGreaterThan(60);
  await expect(chat.last).toContainText(' 300 ', { timeout: 60_000 });
  await expect.poll(async () => countedTo(await chat.text())).toBeGreaterThan(300);
  await chat.stop.click();
  await chat.done('cancelled');
});

test('F02 two tabs show one thread, each word once', async ({ chat, page, context }) => {
  await chat.open();
  await chat.say('count to 20');
  await chat.done();
  await chat.say('count to 400');
  const second = new Chat(await context.newPage());
  await second.open(page.url());
  await expect(second.last).toContainText('1 2 3');
  await second.page.reload();
  await chat.done();
  await second.done();
  for (const tab of [chat, second]) {
    await expect(tab.answers).toHaveCount(2);
    expect(await tab.text(tab.answers.first())).toBe(counted(20));
    expect(await tab.text()).toBe(counted(400));
  }
});

test('F20 Stop keeps what was shown and frees the composer', async ({ chat, page }) => {
  await chat.open();
  await chat.startLong();
  await page.keyboard.press('Escape');
  await chat.done('cancelled');
  const kept = countedTo(await chat.text());
  expect(kept).toBeGreaterThanOrEqual(5);
  expect(kept).toBeLessThan(2000);
  await expect(chat.stop).toBeHidden();
  await expect(chat.last.getByTestId('turn-chip')).toHaveText('stopped');
  await chat.say('count to 7');
  await chat.done();
  expect(await chat.text()).toBe(counted(7));
  await page.reload();
  await expect(chat.answers).toHaveCount(2);
  await expect.poll(async () => countedTo(await chat.text(chat.answers.first()))).toBe(kept);
});

test('Ctrl+Shift+Enter stops the running answer and goes first', async ({ chat }) => {
  await chat.open();
  await chat.startLong();
  await chat.message.fill('count to 6');
  await chat.message.press('Control+Shift+Enter');
  await expect(chat.answers).toHaveCount(2);
  await chat.done();
  await expect(chat.answers.first()).toHaveAttribute('data-status', 'cancelled');
  expect(await chat.text()).toBe(counted(6));
});

test('F40 the reader’s place is kept, and states are announced, not words', async ({ chat, page }) => {
  await chat.open();
  for (let i = 0; i < 2; i++) {
    await chat.say('Tell me about yourself');
    await chat.done();
  }
  const said: string[] = [];
  await page.exposeFunction('heard', (text: string) => { if (text) said.push(text); });
  await page.evaluate(() => {
    const status = document.getElementById('status') as HTMLElement;
    new MutationObserver(() => (window as any).heard(status.textContent ?? '')).observe(status, { childList: true, characterData: true, subtree: true });
  });
  await chat.startLong(700);
  const log = page.getByTestId('transcript');
  await log.hover();
  await page.mouse.wheel(0, -500);
  await expect(page.getByRole('button', { name: 'Latest' })).toBeVisible();
  const at = () => chat.asks.last().evaluate((element) => element.getBoundingClientRect().top);
  const before = await still(at);
  await page.waitForFunction(() => / 500 /.test(document.querySelector('[data-status=running]')?.textContent ?? ' 500 '));
  expect(Math.abs((await at()) - before)).toBeLessThanOrEqual(1);
  await chat.done();
  expect(Math.abs((await at()) - before)).toBeLessThanOrEqual(1);
  await page.getByRole('button', { name: 'Latest' }).click();
  await expect(chat.last).toBeInViewport();
  await expect.poll(() => said).toEqual(['Generating the answer', 'Answer done']);
});

test('nothing moves when the streamed text becomes the stored answer', async ({ chat, page }) => {
  await chat.open();
  await chat.startLong(300);
  await expect(chat.last).toContainText(' 280 ');
  const top = () => chat.last.evaluate((element) => (element.querySelector('.prose') as HTMLElement).getBoundingClientRect().top - element.getBoundingClientRect().top);
  const before = await top();
  await chat.done();
  expect(Math.abs((await top()) - before)).toBeLessThanOrEqual(1);
  await expect(page.getByTestId('stream')).toHaveCount(0);
});

test('a thread by keyboard alone: write, send, stop, new thread, search, rename', async ({ chat, page }) => {
  await chat.open();
  await expect(chat.message).toBeFocused();
  await page.keyboard.type('count to 1500');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('please');
  await expect(chat.message).toHaveValue('count to 1500\nplease');
  await page.keyboard.press('Enter');
  await expect(chat.last).toContainText('1 2 3');
  await expect(chat.message).toBeFocused();
  await page.keyboard.press('Escape');
  await chat.done('cancelled');
  await page.getByRole('button', { name: 'Rename the thread' }).focus();
  await page.keyboard.press('Enter');
  await page.keyboard.type('Counting by keyboard');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('thread-title')).toHaveText('Counting by keyboard');
  await expect(page.getByTestId('thread-link').first()).toContainText('Counting by keyboard');
  await page.keyboard.press('Alt+n');
  await expect(page).toHaveURL(/\/$/);
  await expect(page.getByTestId('empty')).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('by keyboard');
  await expect(page.getByTestId('thread-link')).toHaveCount(1);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/chats\//);
  await expect(chat.answers).toHaveCount(1);
  await page.getByTestId('transcript').focus();
  await page.keyboard.press('?');
  await expect(page.locator('#keys-dialog')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.locator('#keys-dialog')).toBeHidden();
});

test('Enter of an input method does not send', async ({ chat, page }) => {
  await chat.open();
  await chat.message.fill('かな');
  await chat.message.dispatchEvent('compositionstart');
  await chat.message.press('Enter');
  await expect(chat.message).toHaveValue(/かな/);
  expect(page.url()).toMatch(/\/$/);
  await chat.message.dispatchEvent('compositionend');
});

test('F06 what is typed behind the first message goes with it, and an input method is not broken off', async ({ chat, page }) => {
  let answer = () => {};
  await page.routeWebSocket(/\/ws$/, (client) => {
    const server = client.connectToServer();
    server.onMessage((message) => {
      if (/"disposition"/.test(String(message))) answer = () => client.send(message);
      else client.send(message);
    });
  });
  await chat.open();
  await chat.message.fill('count to 3');
  await chat.message.press('Enter');
  await expect(chat.send).toHaveText('Sending…');
  await chat.message.dispatchEvent('compositionstart');
  await chat.message.press('Control+End');
  await page.keyboard.type('\nand then');
  await expect.poll(() => { answer(); return page.getByTestId('thread-link').first().innerText(); }).toContain('count to 3');
  await expect(chat.message).toHaveValue('count to 3\nand then');
  await chat.message.dispatchEvent('compositionend');
  await expect(page).toHaveURL(/\/chats\//);
  await chat.done();
  await expect(chat.message).toHaveValue('and then');
  await page.getByTestId('new-thread').click();
  await expect(chat.message).toHaveValue('');
});

test('drafts stay with their threads', async ({ chat, page }) => {
  await chat.open();
  await chat.say('count to 2');
  await chat.done();
  await chat.message.fill('a thought for later');
  await page.getByTestId('new-thread').click();
  await expect(chat.message).toHaveValue('');
  await chat.message.fill('another one');
  await page.goBack();
  await expect(chat.message).toHaveValue('a thought for later');
  await page.reload();
  await expect(chat.message).toHaveValue('a thought for later');
  await page.getByTestId('new-thread').click();
  await expect(chat.message).toHaveValue('another one');
  await chat.message.fill('');
});

test('“What happened?” tells the turn’s story, and code can be copied', async ({ chat, page }) => {
  await chat.open();
  await chat.say('Show me what you can do');
  await chat.done();
  const code = chat.last.getByTestId('copy-code');
  if (await code.count()) expect((await copied(page, () => code.first().click())).length).toBeGreaterThan(0);
  for (const link of await chat.last.locator('.prose a').all()) await expect(link).toHaveAttribute('target', '_blank');
  await chat.last.getByTestId('what-happened').click();
  const dialog = page.getByTestId('turn-dialog');
  await expect(dialog).toContainText('Model');
  await expect(dialog.locator('.timeline li')).not.toHaveCount(0);
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
});

test('a deleted thread leaves every tab', async ({ chat, page, context }) => {
  await chat.open();
  await chat.say('count to 3');
  await chat.done();
  const other = new Chat(await context.newPage());
  await other.open(page.url());
  await expect(other.answers).toHaveCount(1);
  const path = new URL(page.url()).pathname;
  await page.getByRole('button', { name: 'Delete the thread' }).click();
  await page.getByRole('button', { name: 'Delete thread' }).click();
  await expect(page).toHaveURL(/\/$/);
  await expect(other.page).toHaveURL(/\/$/);
  expect((await page.goto(path))?.status()).toBe(404);
});
