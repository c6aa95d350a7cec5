import { Chat, expect, expectAccessible, expectAgreement } from './fixtures.ts';
import type { Server } from './server.ts';
import { counterTest as test, running } from './upstream.ts';

/** Changes the one org there is. */
async function org(server: Server, ...change: string[]): Promise<void> {
  const listed = JSON.parse(await server.run('admin', 'org', 'list', '--json'));
  const { name } = (Array.isArray(listed) ? listed : listed.orgs)[0];
  const [command = '', ...flags] = change;
  await server.run('admin', 'org', command, '--org', name, ...flags);
}

test('AD2 AD3 AD8 a refused message says why and where to look, and is sent again as another', async ({ chat, page, context, installation: { server } }) => {
  await chat.open();
  await chat.say('count to 3');
  await chat.done();
  await org(server, 'entitlement', '--status', 'suspended');
  await chat.say('count to 4');
  const refusals = page.getByTestId('refusal');
  await expect(refusals).toHaveCount(1);
  await expect(refusals.locator('.bubble')).toHaveText('count to 4');
  await expect(refusals.getByRole('link')).toHaveAttribute('href', `${server.url}/settings?tab=usage`);
  await expect(chat.waiting).toHaveCount(0);
  const other = new Chat(await context.newPage());
  await other.open(page.url());
  await expect(other.page.getByTestId('refusal')).toHaveCount(1);
  await expectAgreement(chat, other);
  await expectAccessible(page);
  await refusals.first().getByTestId('try-again').click();
  await expect(refusals).toHaveCount(2);
  await org(server, 'entitlement', '--status', 'active');
  await refusals.last().getByTestId('try-again').click();
  await expect(chat.answers).toHaveCount(2);
  await chat.done();
  expect(await chat.text()).toBe('1 2 3 4');
  await expect(refusals).toHaveCount(2);
  const view = await expectAgreement(chat, other);
  await page.reload();
  expect(await expectAgreement(chat, other)).toBe(view);
});

test('SQ57 SQ59 a turn that waits for its org says so, in every tab, until a place is free', async ({ chat, page, context, installation: { server }, upstream }) => {
  await org(server, 'limits', '--concurrent-turns', '1');
  await running(chat);
  const second = new Chat(await context.newPage());
  await second.open('/');
  await second.say('count to 5');
  await expect(second.last.getByTestId('turn-chip')).toHaveText('waiting for a free place in your organisation');
  const third = new Chat(await context.newPage());
  await third.open(second.page.url());
  await expect(third.last.getByTestId('turn-chip')).toHaveText('waiting for a free place in your organisation');
  await expectAgreement(second, third);
  await second.page.reload();
  await second.live();
  await expectAgreement(second, third);
  await expect(second.stop).toBeVisible();
  await expectAccessible(second.page);
  upstream.finish();
  await chat.done();
  await second.done();
  expect(await second.text()).toBe('1 2 3 4 5');
  await expectAgreement(second, third);
  await expect(page.getByTestId('waiting')).toBeHidden();
  await org(server, 'limits', '--concurrent-turns', '0');
});
