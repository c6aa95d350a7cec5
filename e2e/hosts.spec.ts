import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from '@playwright/test';
import { Chat, copied, expect, expectAccessible, test } from './fixtures.ts';
import { BINARY, outside } from './server.ts';
import { counterTest, running } from './upstream.ts';

/** A relay host on a machine of its own: another folder, another process. */
class HostMachine {
  private readonly dir = mkdtempSync(join(tmpdir(), 'fairlead-host-'));
  private child: ChildProcess | null = null;
  private output = '';

  /** Runs the command that the page showed. */
  async join(command: string): Promise<string> {
    const [program, ...words] = command.split(' ');
    expect(program).toBe('fairlead');
    return outside([...words, '--data-dir', this.dir]);
  }

  run(): void {
    this.output = '';
    const child = spawn(BINARY, ['host', 'run', '--data-dir', this.dir], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('FAIRLEAD_'))),
    });
    const hear = (chunk: Buffer) => { this.output += chunk.toString(); };
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
    this.child = child;
  }

  /** Resolves with what the process said, when it has ended by itself. */
  async ended(): Promise<string> {
    const child = this.child;
    if (child && child.exitCode === null && child.signalCode === null) await new Promise((resolve) => child.once('exit', resolve));
    return this.output;
  }

  async kill(): Promise<void> {
    this.child?.kill('SIGKILL');
    await this.ended();
  }

  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Invites a host on the page and gives the command to run. */
async function invite(page: Page, name: string, labels = ''): Promise<string> {
  await page.goto('/admin/hosts');
  const form = page.getByTestId('form-host-invite');
  await form.getByLabel('Name').fill(name);
  await form.getByLabel('Labels').fill(labels);
  await form.getByRole('button', { name: 'Make command' }).click();
  return page.getByTestId('join-command').getByRole('textbox').inputValue();
}

function row(page: Page, name: string) {
  return page.getByTestId('host-row').filter({ has: page.getByRole('link', { name, exact: true }) });
}

/** Says yes to what a button asks. */
async function agree(page: Page, label: string): Promise<void> {
  await page.getByTestId('confirm').getByRole('button', { name: label }).click();
}

/** How far the page moved by itself since it was loaded (cumulative layout shift). */
async function shifted(page: Page): Promise<number> {
  return page.evaluate(() => new Promise<number>((resolve) => {
    let sum = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { value: number; hadRecentInput: boolean })[]) {
        if (!entry.hadRecentInput) sum += entry.value;
      }
    }).observe({ type: 'layout-shift', buffered: true });
    setTimeout(() => resolve(sum), 200);
  }));
}

test('a host from its invitation to its revocation, live', async ({ page, installation }) => {
  const command = await invite(page, 'study', 'gpu site=berlin');
  expect(command).toMatch(new RegExp(`^fairlead host join ${installation.server.url} fh_\\S+$`));
  expect(await copied(page, () => page.getByTestId('join-command').getByRole('button', { name: 'Copy' }).click())).toBe(command);
  await expect(page.getByTestId('host-invite-row')).toContainText('study');
  await page.goto('/admin/hosts');
  await expect(page.getByTestId('join-command')).toHaveCount(0);
  await expect(page.getByTestId('live')).toHaveAttribute('data-state', 'live');

  const machine = new HostMachine();
  try {
    await test.step('it joins, and its row comes and changes by itself', async () => {
      await machine.join(command);
      await expect(row(page, 'study')).toHaveAttribute('data-state', 'offline');
      const before = await shifted(page);
      machine.run();
      await expect(row(page, 'study')).toHaveAttribute('data-state', 'online');
      await expect(row(page, 'study')).toContainText('1 of 1 ready');
      await expect(row(page, 'study')).toContainText('site=berlin');
      expect(await shifted(page) - before).toBeLessThan(0.02);
      await expectAccessible(page);
    });

    await test.step('renamed and labelled', async () => {
      await row(page, 'study').getByRole('link', { name: 'study' }).click();
      await expect(page.getByTestId('host-facts')).toContainText('invited by Mara Quay');
      await expect(page.getByTestId('clock')).not.toContainText('not measured');
      await page.getByTestId('form-host-rename').getByLabel('Name').fill('Study room');
      await page.getByRole('button', { name: 'Rename' }).click();
      await expect(page.getByRole('heading', { name: 'Study room', level: 1 })).toBeVisible();
      await page.getByTestId('form-host-labels').getByLabel('Labels').fill('gpu <b>');
      await page.getByRole('button', { name: 'Save labels' }).click();
      await expect(page.getByTestId('field-labels').locator('.field-error')).toContainText('1 to 64 letters');
      await page.getByTestId('form-host-labels').getByLabel('Labels').fill('cpu');
      await page.getByRole('button', { name: 'Save labels' }).click();
      await expect(page.getByTestId('host-labels')).toHaveText('cpu');
      await expectAccessible(page);
    });

    await test.step('drained and resumed', async () => {
      const state = page.locator('[data-live=state] h2');
      await page.getByRole('button', { name: 'Drain' }).click();
      await expect(state).toContainText('draining');
      await page.getByRole('button', { name: 'Resume' }).click();
      await expect(state).toContainText('online');
    });

    await test.step('while it is away everything can be done, and what is typed stays', async () => {
      const state = page.locator('[data-live=state] h2');
      await page.getByTestId('form-host-rename').getByLabel('Name').fill('half a name');
      await machine.kill();
      await expect(state).toContainText(/offline|lost/);
      await expect(page.getByTestId('form-host-rename').getByLabel('Name')).toHaveValue('half a name');
      await page.getByRole('button', { name: 'Drain' }).click();
      await expect(state).toContainText('to drain');
      machine.run();
      await expect(state).toContainText('draining');
    });

    await test.step('revoked: asked first, by keyboard, and the host is told', async () => {
      const button = page.getByRole('button', { name: 'Revoke host' });
      await button.press('Enter');
      await expect(page.getByTestId('confirm')).toContainText('Its link is cut at once');
      await page.keyboard.press('Escape');
      await expect(button).toBeFocused();
      await button.press('Enter');
      await agree(page, 'Revoke host');
      await expect(page.getByTestId('notice')).toHaveText('The host is revoked.');
      expect(await machine.ended()).toMatch(/revoked/);
      await expect(page.getByRole('button', { name: 'Drain' })).toHaveCount(0);
      await page.goto('/admin/hosts');
      await expect(row(page, 'Study room')).toHaveAttribute('data-state', 'revoked');
    });
  } finally {
    await machine.dispose();
  }
});

test('the built-in host has nothing to revoke', async ({ page }) => {
  await page.goto('/admin/hosts');
  await page.getByTestId('host-row').first().getByRole('link').click();
  await expect(page.getByTestId('host-facts')).toContainText('built in');
  await expect(page.locator('main form')).toHaveCount(0);
  await expect(page.getByTestId('route-row')).toContainText('demo');
  await page.getByRole('link', { name: 'Its bindings' }).click();
  await expect(page).toHaveURL(/\/admin\/bindings\?host=/);
});

counterTest('a stuck turn is ended from its binding, and the list is live', async ({ page, context }) => {
  const chat = new Chat(await context.newPage());
  await page.goto('/admin/bindings?state=open');
  await expect(page.getByTestId('live')).toHaveAttribute('data-state', 'live');
  // What an earlier test left running ends by itself.
  await expect(page.getByTestId('binding-row')).toHaveCount(0, { timeout: 90_000 });
  await running(chat);
  await expect(page.getByTestId('binding-row')).toHaveCount(1);
  await expectAccessible(page);
  await page.getByTestId('binding-row').locator('th a').click();
  const reservation = page.getByTestId('reservation').first();
  await expect(reservation).toHaveAttribute('data-status', 'running');
  await expect(page.getByTestId('commands')).toContainText('prompt.request');
  await expectAccessible(page);
  await expect(page.locator('main')).not.toContainText('count on');

  // Why something was refused stays, whatever changes around it.
  await page.locator('[data-live=reservations] .about').evaluate((about) => {
    about.insertAdjacentHTML('afterend', '<p class="alert" data-testid="form-error">It could not be ended.</p>');
  });
  const cursor = await page.getByTestId('cursor').innerText();
  await expect(page.getByTestId('cursor')).not.toHaveText(cursor);
  await expect(page.getByTestId('form-error')).toBeVisible();

  await page.getByRole('button', { name: 'End turn' }).click();
  await agree(page, 'End turn');
  await expect(page.getByTestId('notice')).toHaveText('The turn is ended.');
  await expect(reservation).toContainText('ended_by_admin');
  await chat.done('cancelled');
  await expect(chat.page.getByTestId('turn-chip')).toHaveText('stopped by an admin');
  await expect(page.locator('[data-live=state] h2')).toContainText('settled'); // by itself, when the host told the end
  await page.goto('/admin/bindings?state=open');
  await expect(page.getByTestId('table-bindings')).toContainText('No binding is like this.');
});

test('bindings are filtered by thread', async ({ page, chat }) => {
  await chat.open();
  await chat.say('count to 2');
  await chat.done();
  await expect(page).toHaveURL(/\/chats\//);
  const thread = page.url().split('/').pop() ?? '';
  await page.goto('/admin/bindings');
  const filter = page.getByTestId('binding-filter');
  await filter.getByLabel('Thread').fill(thread);
  await filter.getByLabel('Thread').press('Enter');
  await expect(page).toHaveURL(/thread=/);
  await expect(page.getByTestId('binding-row')).toHaveCount(1);
  await filter.getByLabel('Thread').fill('not a thread');
  await filter.getByRole('button', { name: 'Show', exact: true }).click();
  await expect(page.getByTestId('field-thread').locator('.field-error')).toBeVisible();
  await page.getByRole('link', { name: 'Show all' }).click();
  await expect(page).toHaveURL(/\/admin\/bindings$/);
});

test('everything works without script', async ({ browser, installation }) => {
  const context = await browser.newContext({ javaScriptEnabled: false, storageState: installation.state, baseURL: installation.server.url });
  const page = await context.newPage();
  const machine = new HostMachine();
  try {
    await machine.join(await invite(page, 'attic'));
    await page.goto('/admin/hosts');
    await row(page, 'attic').getByRole('link', { name: 'attic' }).click();
    await page.getByRole('button', { name: 'Drain' }).click();
    await expect(page.getByTestId('notice')).toContainText('drains');
    // A browser that merely runs no script, as this one, does not draw noscript: what
    // stands there for others is looked at in the source.
    const source = await (await page.request.get(page.url())).text();
    expect(source).toMatch(/<noscript>.*Its link is cut at once.*<\/noscript>/s);
    await page.getByRole('button', { name: 'Revoke host' }).click();
    await expect(page.getByTestId('notice')).toHaveText('The host is revoked.');
    await invite(page, 'cellar');
    await page.goto('/admin/hosts');
    const open = page.getByTestId('host-invite-row').filter({ hasText: 'cellar' });
    await open.getByRole('button', { name: 'Take back' }).click();
    await expect(page.getByTestId('notice')).toHaveText('The invitation is taken back.');
  } finally {
    await machine.dispose();
    await context.close();
  }
});

test.describe('in the dark', () => {
  test.use({ colorScheme: 'dark' });

  test('accessible: hosts, a host, bindings, a binding', async ({ page, chat }) => {
    await chat.open();
    await chat.say('count to 2');
    await chat.done();
    await invite(page, 'axe');
    await expectAccessible(page);
    for (const list of ['/admin/hosts', '/admin/bindings']) {
      await page.goto(list);
      await expectAccessible(page);
      await page.locator('tbody th a').first().click();
      await expectAccessible(page);
    }
  });
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true });

  test('nothing is wider than the screen, names stay in sight, targets are large enough', async ({ page, chat }) => {
    await chat.open();
    await chat.say('count to 2');
    await chat.done();
    for (const list of ['/admin/hosts', '/admin/bindings']) {
      await page.goto(list);
      for (const path of ['list', 'detail']) {
        if (path === 'detail') {
          await page.locator('tbody th a').first().tap();
          await page.waitForURL(`**${list}/*`);
        }
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        expect(wide, `${list} ${path}`).toBeLessThanOrEqual(0);
        for (const target of await page.locator('main .btn:visible, main input:visible, main select:visible').all()) {
          expect((await target.boundingBox())?.height ?? 0, await target.evaluate((e) => e.outerHTML)).toBeGreaterThanOrEqual(44);
        }
        await expectAccessible(page);
      }
      await page.goto(list);
      const name = page.locator('tbody th').first();
      const left = (await name.boundingBox())?.x;
      await page.locator('.table-scroll').evaluate((e) => { e.scrollLeft = 300; });
      expect((await name.boundingBox())?.x).toBe(left);
    }
  });
});
