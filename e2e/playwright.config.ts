import { defineConfig } from '@playwright/test';

// Browser tests against the built binary (make build). Each worker starts a
// server of its own in a folder of its own (server.ts), so nothing has to run
// before. The browser is the system's Chromium: Playwright's own is never
// downloaded, which is also why no video is taken.
export default defineConfig({
  testDir: '.',
  testMatch: '*.spec.ts',
  outputDir: '.results',
  timeout: 120_000,
  expect: { timeout: 15_000 },
  workers: 2,
  fullyParallel: false,
  forbidOnly: !!process.env.CI,
  reporter: process.env.CI ? [['list'], ['html', { outputFolder: 'report', open: 'never' }]] : 'list',
  use: {
    browserName: 'chromium',
    viewport: { width: 1280, height: 860 },
    video: 'off',
    // Nothing here looks at an animation, and drawing one without a graphics card
    // takes most of a processor.
    contextOptions: { reducedMotion: 'reduce' },
    // A trace of every test costs a third of the time: TRACE=1 when one is wanted.
    trace: process.env.TRACE ? 'retain-on-failure' : 'off',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
        '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    },
  },
});
