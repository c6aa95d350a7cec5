import { Chat, copied, expect, test } from './fixtures.ts';

test('the dashboard shows binding, turn and routes, live', async ({ page, context }) => {
  await page.goto('/admin');
  await expect(page.getByTestId('live')).toHaveAttribute('data-state', 'live');
  await expect(page.getByTestId('route-row').first()).toContainText('demo');
  await expect(page.getByTestId('host-row').first()).toContainText('online');
  const turns = await page.getByTestId('turn-row').count();
  const bindings = await page.getByTestId('binding-row').count();

  const chat = new Chat(await context.newPage());
  await chat.open();
  await chat.startLong();
  await expect(page.getByTestId('turn-row')).toHaveCount(turns + 1);
  await expect(page.getByTestId('turn-row').first()).toHaveAttribute('data-status', 'running');
  await expect(page.getByTestId('binding-row')).toHaveCount(bindings + 1);
  await expect(page.getByTestId('binding-row').first()).toContainText('1 open');
  await chat.stop.click();
  await chat.done('cancelled');
  await expect(page.getByTestId('turn-row').first()).toHaveAttribute('data-status', 'cancelled');
  await expect(page.getByTestId('binding-row').first()).toContainText('all settled');
});

test('rows are filtered and ids are copied whole', async ({ page, chat }) => {
  await chat.open();
  await chat.say('count to 2');
  await chat.done();
  await page.goto('/admin');
  const row = page.getByTestId('turn-row').first();
  const whole = await copied(page, () => row.locator('[data-copy]').first().click());
  expect(whole).toMatch(/^[0-9a-f-]{36}$/);
  const filter = page.getByLabel('Filter Turns');
  await filter.fill(whole);
  await expect(page.getByTestId('turn-row').filter({ visible: true })).toHaveCount(1);
  await filter.fill('nothing has this text');
  await expect(page.getByTestId('table-turns')).toContainText('Nothing matches this filter.');
});
