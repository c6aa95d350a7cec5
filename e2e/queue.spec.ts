import { Chat, counted, countedTo, expect, expectAccessible, expectAgreement } from './fixtures.ts';
import { counterTest as test, running } from './upstream.ts';

// What a person does while an answer runs. The provider is one that goes on
// answering until the test ends its answer, so nothing here is a race against it.

test('SQ47 SQ50 messages wait in line behind the answer, each gets a turn of its own', async ({ chat, page, upstream }) => {
  await running(chat);
  await chat.message.fill('count on, again');
  await expect(chat.send).toHaveText('Queue');
  await chat.message.press('Enter');
  await expect(chat.waiting).toHaveCount(1);
  for (const text of ['count to 3', 'count to 4']) await chat.say(text);
  await page.reload();
  await expect(chat.waiting.locator('.t')).toHaveText(['count on, again', 'count to 3', 'count to 4']);
  await chat.waitingFor('count to 3').getByTestId('recall').click();
  await expect(chat.waitingFor('count to 3')).toHaveCount(0);
  await expect(chat.message).toHaveValue('count to 3');
  await chat.message.fill('');
  await page.keyboard.press('Escape');
  await expect(chat.answers).toHaveCount(2);
  await expect(chat.last).toContainText('1 2 3');
  upstream.finish();
  await expect(chat.asks).toHaveText(['count on', 'count on, again', 'count to 4']);
  await chat.done();
  await expect(chat.waiting).toHaveCount(0);
  expect(await chat.text()).toBe(counted(4));
});

test('F24 three wait, the second is recalled, the third steered, the first answer stopped; two tabs agree throughout', async ({ chat, page, context }) => {
  test.slow();
  await running(chat);
  const other = new Chat(await context.newPage());
  await other.open(page.url());
  await expect(other.last).toContainText('1 2 3');
  const reloaded = async () => {
    const before = await expectAgreement(chat, other);
    await page.reload();
    await chat.live();
    expect(await expectAgreement(chat, other)).toBe(before);
    await other.page.reload();
    await other.live();
    expect(await expectAgreement(chat, other)).toBe(before);
  };

  const messages = ['count on, once more', 'count to 30', 'count to 40'];
  for (const [i, text] of messages.entries()) {
    await chat.say(text);
    await expect(chat.waiting).toHaveCount(i + 1);
    await expectAgreement(chat, other);
  }
  await expect(other.waiting.locator('.t')).toHaveText(messages);
  await reloaded();

  await other.waitingFor('count to 30').getByTestId('recall').click();
  await expect(other.message).toHaveValue('count to 30');
  await expect(chat.waiting.locator('.t')).toHaveText(['count on, once more', 'count to 40']);
  await expect(chat.message).toHaveValue('');
  await reloaded();
  await expect(other.message).toHaveValue('count to 30');
  await other.message.fill('');

  await chat.waitingFor('count to 40').getByTestId('steer').click();
  await expect(other.waitingFor('count to 40').getByTestId('waiting-place')).toHaveText('joins this answer');
  await expect(chat.waiting.locator('.t')).toHaveText(['count on, once more', 'count to 40']);
  await reloaded();

  await page.keyboard.press('Escape');
  await expect(chat.answers.first()).toHaveAttribute('data-status', 'cancelled');
  await expect(chat.answers).not.toHaveCount(1);
  await expectAgreement(chat, other);
  // The answer did not take the steer, so it goes first, as a message of its own.
  await expect(other.asks).toHaveText(['count on', 'count to 40', 'count on, once more'], { timeout: 30_000 });
  await expect(other.last).toContainText('1 2 3');
  await expect.poll(() => chat.text(chat.answers.nth(1))).toBe(counted(40));
  await expect(chat.waiting).toHaveCount(0);
  await reloaded();

  await other.stop.click();
  await chat.done('cancelled');
  const end = await expectAgreement(chat, other);
  expect(end.match(/^(ask|steered|answer|waits)/gm)).toEqual(['ask', 'answer', 'ask', 'answer', 'ask', 'answer']);
});

test('a steer joins the answer after what is being written, in one turn', async ({ chat, page, context, upstream }) => {
  await running(chat);
  const before = upstream.requests.length;
  await chat.message.fill('count to 9');
  await expect(chat.page.locator('#hints')).toContainText('steer');
  await chat.message.press('Control+Enter');
  await expect(chat.waiting.getByTestId('waiting-place')).toHaveText('joins this answer');
  const board = await context.newPage();
  await board.goto('/admin');
  await expect(board.getByTestId('queue-row')).toContainText('handed over');
  await board.close();
  upstream.finish();
  await expect(page.getByTestId('steered')).toHaveCount(1);
  await chat.done();
  await expect(chat.waiting).toHaveCount(0);
  await expect(page.getByTestId('turn-group')).toHaveCount(1);
  await expect(chat.answers).toHaveCount(2);
  const first = await chat.text(chat.answers.first());
  expect(await chat.text()).toBe(counted(9));
  expect(upstream.requests.length - before).toBe(1);
  const [asked, answered, steered] = upstream.requests.at(-1)?.slice(-3) ?? [];
  expect(asked?.content).toMatch(/count on$/);
  expect([answered?.role, answered?.content]).toEqual(['assistant', first]);
  expect([steered?.role, steered?.content]).toEqual(['user', 'count to 9']);
  await page.reload();
  await expect(page.getByTestId('steered')).toContainText('count to 9');
  await expect.poll(async () => [await chat.text(chat.answers.first()), await chat.text()]).toEqual([first, counted(9)]);
  await chat.last.getByTestId('what-happened').click();
  await expect(page.getByTestId('usage')).toContainText('response 2');
});

test('Steer now cuts the answer where it is; two tabs agree', async ({ chat, page, context }) => {
  await running(chat);
  const other = new Chat(await context.newPage());
  await other.open(page.url());
  await chat.say('count to 12');
  await chat.waitingFor('count to 12').getByTestId('steer-now').click();
  await expect(page.getByTestId('steered')).toHaveCount(1);
  await chat.done();
  const kept = countedTo(await chat.text(chat.answers.first()));
  expect(kept).toBeGreaterThan(4);
  expect(await chat.text()).toBe(counted(12));
  const view = await expectAgreement(chat, other);
  await page.reload();
  expect(await expectAgreement(chat, other)).toBe(view);
  expect(countedTo(await chat.text(chat.answers.first()))).toBe(kept);
  await expect(page.getByTestId('turn-group')).toHaveCount(1);
});

test('F24 a steer that comes too late goes next, and says so', async ({ chat, page, context }) => {
  await running(chat);
  const other = new Chat(await context.newPage());
  await other.open(page.url());
  for (const text of ['count to 11', 'count on, first', 'count on, second']) await chat.say(text);
  for (const text of ['count on, first', 'count on, second']) {
    await chat.waitingFor(text).getByTestId('steer').click();
    await expect(chat.waitingFor(text).getByTestId('waiting-place')).toHaveText('joins this answer');
  }
  await page.keyboard.press('Escape');
  // One starts; the other stands before what was queued, and says why it did not join.
  await expect(chat.asks).toHaveText(['count on', 'count on, first']);
  await expect(other.waiting.locator('.t')).toHaveText(['count on, second', 'count to 11']);
  const note = other.waitingFor('count on, second').getByTestId('waiting-note');
  await expect(note).toHaveText('The answer had ended; this message goes next.');
  for (const tab of [chat, other]) await expect(tab.last).toContainText('1 2 3');
  const before = await expectAgreement(chat, other);
  await page.reload();
  await chat.live();
  expect(await expectAgreement(chat, other)).toBe(before);
  await expect(chat.last).toHaveAttribute('data-status', 'running');
  await chat.stop.click();
  await expect(chat.asks).toHaveText(['count on', 'count on, first', 'count on, second']);
  await expect(chat.waiting).toHaveCount(1);
  await expect(chat.waiting.getByTestId('waiting-note')).toBeHidden();
});

test('a message is edited in its place; a wording that comes too late is kept', async ({ chat, page }) => {
  await running(chat);
  for (const text of ['count on, again', 'count to 31', 'count to 32']) await chat.say(text);
  await chat.waitingFor('count to 31').getByTestId('edit').click();
  const box = page.getByTestId('edit-box').and(page.locator(':focus'));
  await box.fill('count to 33');
  await page.keyboard.press('Enter');
  await expect(chat.waiting.locator('.t')).toHaveText(['count on, again', 'count to 33', 'count to 32']);
  await expect(chat.waitingFor('count to 33').getByTestId('edit')).toBeFocused();

  await chat.waitingFor('count to 33').getByTestId('edit').click();
  await box.fill('count to 34');
  await page.keyboard.press('Escape');
  await expect(chat.waitingFor('count to 33')).toBeVisible();
  expect(await chat.last.getAttribute('data-status'), 'Escape in the edit does not stop the answer').toBe('running');

  // ↑ in the empty box edits the message that was written last.
  await chat.message.focus();
  await page.keyboard.press('ArrowUp');
  await expect(box).toHaveValue('count to 32');
  await page.keyboard.press('Escape');

  await chat.waitingFor('count on, again').getByTestId('edit').click();
  await box.fill('count on, in its new wording');
  await page.reload();
  await chat.live();
  await expect(chat.waiting.first().getByTestId('edit-box')).toHaveValue('count on, in its new wording');
  await chat.stop.click();
  await expect(chat.asks).toHaveText(['count on', 'count on, again']);
  await expect(chat.message).toHaveValue('count on, in its new wording');
  await expect(page.getByTestId('compose-note')).toContainText('already started');
});

test('F06 a recalled text that finds the box in use is kept beside it', async ({ chat, page }) => {
  await running(chat);
  await chat.say('first thought');
  await chat.message.fill('second thought');
  await chat.waitingFor('first thought').getByTestId('recall').focus();
  await page.keyboard.press('Enter');
  const kept = page.getByTestId('shelf-item');
  await expect(kept).toContainText('first thought');
  await expect(chat.message).toHaveValue('second thought');
  await expect(chat.waiting).toHaveCount(0);
  await page.reload();
  await chat.live();
  await expect(kept).toContainText('first thought');
  await kept.getByTestId('shelf-insert').click();
  await expect(chat.message).toHaveValue('first thought\n\nsecond thought');
  await expect(kept).toHaveCount(0);
});

test('F05 F06 a recall whose answer is lost is not a lost text', async ({ chat, page }) => {
  await running(chat);
  await chat.say('do not lose me');
  const socket = new URL('/ws', page.url()).href.replace('http', 'ws');
  // The next line loses the answers to recalls.
  await page.routeWebSocket(socket, (client) => {
    const server = client.connectToServer();
    server.onMessage((message) => { if (!/"disposition":"recalled"/.test(String(message))) client.send(message); });
  });
  await page.reload();
  await chat.live();
  await chat.waitingFor('do not lose me').getByTestId('recall').click();
  await expect(chat.waiting).toHaveCount(0);
  await expect(chat.message).toHaveValue('');
  await page.unrouteAll();
  await page.reload();
  await chat.live();
  await expect(chat.message).toHaveValue('do not lose me');
});

test('not_recallable: a message that is being taken stays, with a note', async ({ chat, page }) => {
  await running(chat);
  await chat.say('count on, again');
  const socket = new URL('/ws', page.url()).href.replace('http', 'ws');
  await page.routeWebSocket(socket, (client) => {
    const server = client.connectToServer();
    client.onMessage((message) => {
      const command = JSON.parse(String(message));
      if (command.type === 'message.recall') client.send(JSON.stringify({ re: command.id, ok: false, error: { code: 'not_recallable', message: '', retryable: false } }));
      else server.send(message);
    });
  });
  await page.reload();
  await chat.live();
  await chat.waitingFor('count on, again').getByTestId('recall').click();
  await expect(chat.waiting.getByTestId('waiting-note')).toContainText('being taken into the answer');
  await expect(chat.waitingFor('count on, again')).toBeVisible();
  await expect(chat.message).toHaveValue('');
  await expect(page.getByTestId('toast')).toHaveCount(0);
});

test('what Enter does while an answer runs is chosen once and remembered', async ({ chat, page, context }) => {
  await chat.open();
  const choice = page.getByTestId('while-busy');
  await expect(choice).toBeHidden();
  await chat.startLong();
  await expect(choice.getByRole('radio', { name: 'Queue' })).toBeChecked();
  await choice.getByRole('radio', { name: 'Stop and send' }).check({ force: true });
  await expect(chat.message).toBeFocused();
  await expect(chat.message).toHaveAttribute('placeholder', /stops the answer/);
  await chat.message.fill('count on, again');
  await expect(chat.send).toHaveText('Stop and send');
  await page.reload();
  await chat.live();
  await expect(chat.send).toHaveText('Stop and send');
  await chat.message.press('Enter');
  await expect(chat.answers).toHaveCount(2);
  await expect(chat.answers.first()).toHaveAttribute('data-status', 'cancelled');
  const other = new Chat(await context.newPage());
  await other.open(page.url());
  await expect(other.page.getByTestId('while-busy').getByRole('radio', { name: 'Stop and send' })).toBeChecked();
  await other.page.getByTestId('while-busy').getByRole('radio', { name: 'Queue' }).check({ force: true });
});

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(`the queue, ${colorScheme}`, () => {
    test.use({ colorScheme });

    test('is accessible', async ({ chat, page }) => {
      await running(chat);
      for (const text of ['count to 21', 'Use the Shom tables, not the Admiralty ones, and say so', 'count to 23']) await chat.say(text);
      await chat.waiting.nth(1).getByTestId('steer').click();
      await expect(chat.waiting.nth(1).getByTestId('waiting-place')).toHaveText('joins this answer');
      await chat.message.fill('typed meanwhile');
      await chat.waitingFor('count to 23').getByTestId('recall').click();
      await expect(page.getByTestId('shelf-item')).toHaveCount(1);
      await chat.waitingFor('count to 21').getByTestId('edit').click();
      await expectAccessible(page);
    });
  });
}

test.describe('at 375 px', () => {
  test.use({ viewport: { width: 375, height: 740 }, isMobile: true, hasTouch: true });

  test('the queue fits and can be tapped', async ({ chat, page }) => {
    await running(chat);
    for (const text of ['count to 21', 'Use the Shom tables, not the Admiralty ones, and say so']) await chat.say(text);
    await chat.waiting.nth(1).getByTestId('steer').tap();
    await expect(chat.waiting.nth(1).getByTestId('waiting-place')).toHaveText('joins this answer');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(wide).toBeLessThanOrEqual(0);
    for (const button of await page.locator('#waiting button:visible, #composer button:visible').all()) {
      const box = await button.boundingBox();
      expect(box && box.height, await button.innerText()).toBeGreaterThanOrEqual(44);
      expect((box?.x ?? 0) + (box?.width ?? 999)).toBeLessThanOrEqual(375);
    }
    await expectAccessible(page);
  });
});
