import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const BINARY = process.env.E2E_BINARY ?? fileURLToPath(new URL('../bin/fairlead', import.meta.url));

/** Runs a command of the program, of no server's folder. */
export async function outside(command: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(BINARY, command);
  return stdout;
}

/** One fairlead process over one data folder; it can be killed and started again. */
export class Server {
  url = '';
  setupLink = '';
  private child: ChildProcess | null = null;
  private output = '';
  private readonly dir = mkdtempSync(join(tmpdir(), 'fairlead-e2e-'));

  private constructor(private readonly port: number, private readonly flags: string[]) {}

  /** Starts a fresh installation. */
  static async fresh(...flags: string[]): Promise<Server> {
    if (!existsSync(BINARY)) throw new Error(`${BINARY} is missing: go build -o bin/fairlead ./cmd/fairlead`);
    const server = new Server(await freePort(), flags);
    await server.start();
    return server;
  }

  async start(): Promise<void> {
    this.output = '';
    const child = spawn(BINARY, ['serve', '--data-dir', this.dir, '--listen', `127.0.0.1:${this.port}`, ...this.flags], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('FAIRLEAD_'))),
    });
    this.child = child;
    const hear = (chunk: Buffer) => { this.output += chunk.toString(); };
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
    this.url = (await this.find(/listening on (http:\S+)/)).replace(/\/$/, '');
    this.setupLink ||= await this.find(/(http:\S+\/setup\?\S+)/);
  }

  /** Runs a command of the program over the same folder, beside the server. */
  async run(...command: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(BINARY, [...command, '--data-dir', this.dir, ...this.flags]);
    return stdout;
  }

  /** Waits for a line of the server's output. */
  private async find(pattern: RegExp): Promise<string> {
    for (let i = 0; i < 300; i++) {
      const found = pattern.exec(this.output)?.[1];
      if (found) return found;
      if (this.child?.exitCode !== null) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`fairlead did not come up:\n${this.output}`);
  }

  /** The process is gone from one moment to the next. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.child;
    this.child = null;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await gone;
  }

  async dispose(): Promise<void> {
    await this.kill('SIGTERM');
    rmSync(this.dir, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => (address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port'))));
    });
  });
}
