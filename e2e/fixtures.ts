import { AxeBuilder } from '@axe-core/playwright';
import { type BrowserContextOptions, type Locator, type Page, test as base, expect } from '@playwright/test';
import { Server } from './server.ts';

export { expect };

export const ADMIN = { name: 'Mara Quay', email: 'mara@quay.example', password: 'tide tables for the crossing' };

/** Pages that axe is looking at. */
const audited = new WeakSet<Page>();

type State = Exclude<BrowserContextOptions['storageState'], string | undefined>;

/** An installation that has been set up, and a browser that is logged in to it. */
export const test = base.extend<{ chat: Chat }, { installation: { server: Server; state: State } }>({
  installation: [async ({ browser }, use) => {
    const server = await Server.fresh();
    const context = await browser.newContext();
    await setUp(await context.newPage(), server);
    const state = await context.storageState();
    await context.close();
    await use({ server, state });
    await server.dispose();
  }, { scope: 'worker' }],

  storageState: async ({ installation }, use) => use(installation.state),
  baseURL: async ({ installation }, use) => use(installation.server.url),

  // Every page is watched for what a content security policy would have refused.
  page: async ({ page }, use) => {
    const faults: string[] = [];
    // axe itself adds styles that the policy refuses.
    const fault = (text: string) => { if (!audited.has(page)) faults.push(text); };
    page.on('pageerror', (error) => fault(error.message));
    page.on('console', (message) => {
      if (/Content Security Policy|Refused to/.test(message.text())) fault(message.text());
    });
    await use(page);
    expect(faults).toEqual([]);
  },

  chat: async ({ page }, use) => use(new Chat(page)),
});

/** Makes the first account by the link that the server printed. */
export async function setUp(page: Page, server: Server): Promise<void> {
  await page.goto(server.setupLink);
  await page.getByLabel('Your name').fill(ADMIN.name);
  await page.getByLabel('Email').fill(ADMIN.email);
  await page.getByLabel('Password').fill(ADMIN.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await expect(page.getByTestId('chat-page')).toBeVisible();
}

/** Does what sends a form, and waits for the page that answers it. */
export async function answered(page: Page, act: () => Promise<void>): Promise<void> {
  await page.evaluate(() => { document.documentElement.dataset.before = 'yes'; });
  await act();
  await expect(page.locator('html[data-before]')).toHaveCount(0);
  await page.waitForLoadState();
}

/** What stands on the clipboard after an act that copies. */
export async function copied(page: Page, act: () => Promise<void>): Promise<string> {
  const read = () => page.evaluate(() => navigator.clipboard.readText());
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.evaluate(() => navigator.clipboard.writeText('nothing was copied'));
  await act();
  await expect.poll(read).not.toBe('nothing was copied');
  return read();
}

/** A number that moves for a while, once it stands still. */
export async function still(read: () => Promise<number>): Promise<number> {
  let before = NaN;
  await expect.poll(async () => {
    const now = await read();
    const same = now === before;
    before = now;
    return same;
  }, { intervals: [200] }).toBe(true);
  return before;
}

export async function logIn(page: Page): Promise<void> {
  await page.getByLabel('Email').fill(ADMIN.email);
  await page.getByLabel('Password').fill(ADMIN.password);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** The chat page as a person uses it. */
export class Chat {
  readonly message: Locator;
  readonly send: Locator;
  readonly stop: Locator;
  readonly answers: Locator;
  readonly asks: Locator;
  readonly waiting: Locator;
  readonly status: Locator;

  constructor(readonly page: Page) {
    this.message = page.getByTestId('message');
    this.send = page.getByTestId('send');
    this.stop = page.getByTestId('stop');
    this.answers = page.getByTestId('answer');
    this.asks = page.getByTestId('ask');
    this.waiting = page.getByTestId('waiting-item');
    this.status = page.getByTestId('status');
  }

  async open(path = '/'): Promise<void> {
    await this.page.goto(path);
    await this.live();
  }

  async live(): Promise<void> {
    await expect(this.page.getByTestId('live')).toHaveAttribute('data-state', 'live', { timeout: 30_000 });
  }

  /** Sends by keyboard and waits until the server has the message. */
  async say(text: string): Promise<void> {
    await this.message.fill(text);
    await this.message.press('Enter');
    await expect(this.message).toHaveValue('');
  }

  /** The row of a waiting message. */
  waitingFor(text: string): Locator {
    return this.waiting.filter({ has: this.page.getByText(text, { exact: true }) });
  }

  /**
   * What is shown, as text: messages, answers and their states, the line of waiting
   * messages. A word that changes by itself (a time) is left out.
   */
  async shown(): Promise<string> {
    return this.page.evaluate(() => {
      const text = (element: Element) => (element as HTMLElement).innerText.replaceAll(/\s+/g, ' ').trim();
      const lines: string[] = [];
      for (const element of document.querySelectorAll('#items .ask, #items .turn, #waiting li')) {
        if (element.classList.contains('turn')) {
          const parts = [...element.querySelectorAll('[data-testid=output], [data-testid=output-partial], [data-testid=stream]')];
          const state = element.querySelector('[data-testid=turn-chip]')?.textContent ?? '';
          lines.push(`answer ${element.getAttribute('data-status')} ${state}: ${parts.map(text).join('')}`);
        } else if (element.matches('#waiting li')) {
          const shownParts = [...element.querySelectorAll('.n, .t, .chip:not([hidden]), .waiting-note:not([hidden])')];
          lines.push(`waits ${shownParts.map(text).join(' ')}`);
        } else {
          lines.push(`${element.getAttribute('data-testid')}: ${text(element.querySelector('.bubble') ?? element)}`);
        }
      }
      return lines.join('\n');
    });
  }

  get last(): Locator {
    return this.answers.last();
  }

  async done(status = 'completed'): Promise<void> {
    await expect(this.last).toHaveAttribute('data-status', status, { timeout: 30_000 });
  }

  /** Starts a long answer and waits for its first words. */
  async startLong(count = 2000): Promise<void> {
    await this.say(`count to ${count}`);
    await expect(this.last).toHaveAttribute('data-status', 'running');
    await expect(this.last).toContainText('1 2 3 4 5');
  }

  /** The text of an answer, without its state and buttons. */
  async text(answer: Locator = this.last): Promise<string> {
    const parts = await answer.locator('[data-testid=output], [data-testid=output-partial], [data-testid=stream]').allInnerTexts();
    return parts.join('').replaceAll(/\s+/g, ' ').trim();
  }
}

/** "1 2 3 …" up to n. */
export function counted(n: number): string {
  return Array.from({ length: n }, (_, i) => String(i + 1)).join(' ');
}

/** Whether a text is the beginning of a count, and how far it goes. */
export function countedTo(text: string): number {
  const numbers = text.split(' ').filter(Boolean);
  numbers.forEach((number, i) => {
    if (i < numbers.length - 1 && number !== String(i + 1)) throw new Error(`“${number}” stands where ${i + 1} should: ${text.slice(0, 200)}`);
  });
  return numbers.length;
}

/** No violation of WCAG 2.2 AA that axe can find. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(() => document.fonts.ready);
  await page.evaluate(() => Promise.all(document.getAnimations().filter((a) => a.effect?.getTiming().iterations !== Infinity).map((a) => a.finished.catch(() => {}))));
  audited.add(page);
  const { violations } = await new AxeBuilder({ page })
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'])
    // Which heading an answer begins with is the model's choice.
    .options({ preload: false, rules: { 'heading-order': { enabled: false } } }).analyze();
  audited.delete(page);
  expect(violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => `${node.target} ${node.failureSummary}`).join('; ')}`)).toEqual([]);
}

/**
 * Two tabs show the same. Of an answer that runs one may have some words more:
 * they are compared as far as both have them, and how far that is is left out of
 * what is given back.
 */
export async function expectAgreement(one: Chat, other: Chat): Promise<string> {
  let seen = '';
  await expect(async () => {
    const views = (await Promise.all([one.shown(), other.shown()])).map((view) => view.split('\n'));
    const [a, b] = [views[0] ?? [], views[1] ?? []];
    const running = a.findIndex((line) => line.startsWith('answer running'));
    if (running >= 0) {
      const length = Math.min(a[running]?.length ?? 0, b[running]?.length ?? 0);
      for (const view of [a, b]) view[running] = (view[running] ?? '').slice(0, length);
    }
    expect(b).toEqual(a);
    seen = a.map((line) => line.replace(/^(answer running [^:]*: )(1?( 2)?( 3)? ?|1 2 3 .*)$/, '$1…')).join('\n');
  }).toPass({ timeout: 30_000 });
  return seen;
}
