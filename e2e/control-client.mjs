// A control plane in Node, written from protocol.md §1 and §3 and relay-host.md alone:
// it shares no code with the product. It needs nothing but Node 20.
//
//   node control-client.mjs URL < settings.json
//
// Settings: {token, accountRef, targetRef}. It attaches a run, sends a prompt, reads
// deltas, interrupts, loses its connection in the middle of a second turn, resumes, and
// prints what it holds as JSON. It exits with 1 and says why if anything is not as the
// contract has it.
//
// It is plain JavaScript as a stranger would write it: types would say what this
// project knows, and the program must not.
// @ts-nocheck
import { createHash, randomBytes } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const PROTOCOL = 'codewhale.runtime-chat-relay.v1';
const WAIT = 30_000;

/** Thrown where the gateway does not keep the contract. */
export class ContractError extends Error {}

function must(holds, what) {
  if (!holds) throw new ContractError(what);
}

// ---- A WebSocket (RFC 6455): text frames, ping and close ------------------------

export function openSocket(url, token) {
  const address = new URL('ws/control', url.endsWith('/') ? url : `${url}/`);
  const key = randomBytes(16).toString('base64');
  const request = (address.protocol === 'https:' ? https : http).request(address, {
    headers: {
      Authorization: `Bearer ${token}`, Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': key, 'Sec-WebSocket-Protocol': PROTOCOL,
    },
  });
  return new Promise((resolve, reject) => {
    request.once('error', reject);
    request.once('response', (response) => {
      let body = '';
      response.on('data', (part) => { body += part; });
      response.on('end', () => reject(Object.assign(new Error(`HTTP ${response.statusCode}`), { status: response.statusCode, body })));
    });
    request.once('upgrade', (response, socket, head) => {
      const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
      if (response.headers['sec-websocket-accept'] !== accept || response.headers['sec-websocket-protocol'] !== PROTOCOL) {
        reject(new ContractError('the handshake is not one of this subprotocol'));
        socket.destroy();
        return;
      }
      resolve(new Socket(socket, head));
    });
    request.end();
  });
}

class Socket {
  onText = () => {};
  onClose = () => {};
  #socket;
  #data = Buffer.alloc(0);
  #parts = [];
  #code = 1006;

  constructor(socket, head) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (data) => this.#take(data));
    socket.on('error', () => {});
    socket.on('close', () => this.onClose(this.#code));
    setImmediate(() => this.#take(head));
  }

  send(text) { this.#write(0x1, Buffer.from(text, 'utf8')); }

  /** Breaks the connection off, as a cut cable does. */
  cut() { this.#socket.destroy(); }

  close() {
    this.#write(0x8, Buffer.from([0x03, 0xe8]));
    this.#socket.end();
  }

  #write(opcode, payload) {
    const mask = randomBytes(4);
    let head;
    if (payload.length < 126) head = Buffer.from([0x80 | opcode, 0x80 | payload.length]);
    else if (payload.length < 65536) {
      head = Buffer.from([0x80 | opcode, 0xfe, 0, 0]);
      head.writeUInt16BE(payload.length, 2);
    } else {
      head = Buffer.from([0x80 | opcode, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
      head.writeBigUInt64BE(BigInt(payload.length), 2);
    }
    const masked = Buffer.from(payload);
    for (let i = 0; i < masked.length; i += 1) masked[i] ^= mask[i % 4];
    this.#socket.write(Buffer.concat([head, mask, masked]));
  }

  #take(data) {
    this.#data = Buffer.concat([this.#data, data]);
    for (;;) {
      if (this.#data.length < 2) return;
      const [first, second] = this.#data;
      let size = second & 0x7f;
      let at = 2;
      if (size === 126) {
        if (this.#data.length < 4) return;
        size = this.#data.readUInt16BE(2);
        at = 4;
      } else if (size === 127) {
        if (this.#data.length < 10) return;
        size = Number(this.#data.readBigUInt64BE(2));
        at = 10;
      }
      if (this.#data.length < at + size) return;
      const payload = this.#data.subarray(at, at + size);
      this.#data = this.#data.subarray(at + size);
      this.#frame(first & 0x0f, (first & 0x80) !== 0, payload);
    }
  }

  #frame(opcode, last, payload) {
    if (opcode === 0x9) this.#write(0xa, payload);
    else if (opcode === 0x8) {
      this.#code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
      this.#socket.end();
    } else if (opcode === 0x0 || opcode === 0x1) {
      this.#parts.push(Buffer.from(payload));
      if (!last) return;
      const text = Buffer.concat(this.#parts).toString('utf8');
      this.#parts = [];
      this.onText(text);
    }
  }
}

// ---- What a control plane holds of a run ----------------------------------------

/** The account-side state of one run: it takes pushes and says what they change. */
export class RunState {
  /** Highest seq that is stored (here: in memory), which is the cursor. */
  cursor = 0;
  attached = null;
  refused = null;
  goaway = null;
  acks = new Map();
  turns = new Map();
  catalog = null;
  /** Raw text by seq, to hold repetitions to the bytes (RH49). */
  raw = new Map();
  sources = new Set();

  constructor(runId) { this.runId = runId; }

  take(text) {
    const push = JSON.parse(text);
    if (push.runId !== undefined && push.runId !== this.runId) return push;
    switch (push.type) {
      case 'attached':
        must(push.runner && push.runner.targetRef && Number.isInteger(push.runtimeCursor), `attached without runner or cursor: ${text}`);
        this.attached = push;
        this.refused = null;
        break;
      case 'refused':
        must(push.error && push.error.code, `refused without an error: ${text}`);
        this.refused = push.error;
        this.attached = null;
        break;
      case 'ack':
        must(push.status === 'applied' || push.status === 'failed', `a chat command is applied or failed (RH53): ${text}`);
        this.acks.set(push.commandSeq, push);
        break;
      case 'event':
        this.#event(push.envelope, text);
        break;
      case 'goaway':
        this.goaway = push;
        break;
      default: // newer pushes are ignored
    }
    return push;
  }

  #event(envelope, text) {
    const { seq, source_event_id: source } = envelope;
    must(envelope.schema_version === 2 && envelope.kind === envelope.event, `no envelope v2: ${text}`);
    if (seq <= this.cursor) {
      must(this.raw.get(seq) === text, `event ${seq} comes again with other bytes (RH49)`);
      return;
    }
    must(seq === this.cursor + 1, `event ${seq} follows ${this.cursor} (RH48)`);
    this.raw.set(seq, text);
    this.cursor = seq;
    if (source !== undefined) {
      if (this.sources.has(source)) return; // sent again under a new seq (RH42)
      this.sources.add(source);
    }
    if (envelope.event === 'runtime.catalog') {
      must(envelope.timestamp === '1970-01-01T00:00:00Z' && !envelope.turn_id, `no catalog event (RH60): ${text}`);
      this.catalog = envelope.payload;
      return;
    }
    const turn = this.turn(envelope.turn_id);
    must(turn.status === null, `an event of ${envelope.turn_id} after its end`);
    if (envelope.event === 'turn.started') turn.started += 1;
    if (envelope.event === 'item.delta' && envelope.payload.kind === 'agent_message') {
      turn.text += envelope.payload.delta;
      turn.deltas += 1;
    }
    if (envelope.event === 'turn.completed') turn.status = envelope.payload.turn.status;
  }

  turn(id) {
    if (!this.turns.has(id)) this.turns.set(id, { started: 0, deltas: 0, text: '', status: null });
    return this.turns.get(id);
  }
}

// ---- The control plane ------------------------------------------------------------

class ControlPlane {
  #settings;
  #url;
  #socket = null;
  #waiting = [];
  #seq = 0;
  #pending = new Map();
  closeCode = null;

  constructor(url, settings) {
    this.#url = url;
    this.#settings = settings;
    this.workspaceId = 'node-workspace';
    this.run = new RunState(`node-run-${randomBytes(6).toString('hex')}`);
    this.sessionId = `node-session-${randomBytes(6).toString('hex')}`;
    this.challenge = randomBytes(24).toString('hex');
  }

  async connect() {
    const socket = await openSocket(this.#url, this.#settings.token);
    this.#socket = socket;
    this.closeCode = null;
    socket.onText = (text) => {
      if (socket !== this.#socket) return;
      try {
        const push = this.run.take(text);
        if (push.ok === false) throw new ContractError(`a frame was refused: ${text}`);
        if (push.type === 'ack') this.#pending.delete(push.commandSeq);
        if (push.type === 'event') this.#say({ type: 'cursor', runId: this.run.runId, cursor: this.run.cursor });
      } catch (error) {
        this.fault = error;
      }
      this.#look();
    };
    socket.onClose = (code) => {
      if (socket === this.#socket) this.closeCode = code;
      this.#look();
    };
  }

  /** Attaches from where it stands and sends again what was not answered (RH47, RH52). */
  async attach() {
    this.run.attached = null;
    this.run.refused = null;
    this.#say({
      type: 'attach', targetRef: this.#settings.targetRef, sessionId: this.sessionId, accountRef: this.#settings.accountRef,
      runId: this.run.runId, workspaceId: this.workspaceId, cursor: this.run.cursor, challenge: this.challenge,
    });
    await this.until('attached', () => this.run.attached || this.run.refused);
    must(this.run.attached, `the run was refused: ${JSON.stringify(this.run.refused)}`);
    for (const frame of this.#pending.values()) this.#socket.send(frame);
  }

  async command(command) {
    const seq = this.#issue(command);
    await this.until(`an answer to command ${seq}`, () => this.run.acks.has(seq));
    return this.run.acks.get(seq);
  }

  #issue(command) {
    this.#seq += 1;
    const frame = JSON.stringify({ type: 'command', runId: this.run.runId, seq: this.#seq, command });
    this.#pending.set(this.#seq, frame);
    this.#socket.send(frame);
    return this.#seq;
  }

  /** Sends a command and breaks the connection before anything of its answer is read. */
  commandIntoNothing(command) {
    const seq = this.#issue(command);
    this.cut();
    return seq;
  }

  prompt(turn, text) {
    const [provider] = this.run.catalog.providers;
    return {
      type: 'prompt.request', runId: this.run.runId, turnId: turn.turnId, operationKey: turn.operationKey,
      runtimeBindingId: turn.bindingId, runtimeThreadId: turn.threadId, prompt: text,
      model: provider.defaultModel, modelProvider: provider.id, modelProviderId: provider.modelProviderId,
      allowedTools: [], mode: 'chat', requestedMode: 'chat',
      workspace: { id: this.workspaceId, targetRef: this.#settings.targetRef },
    };
  }

  interrupt(turn, reason) {
    return {
      type: 'run.control', runId: this.run.runId, action: 'interrupt', reason, turnId: turn.turnId,
      runtimeBindingId: turn.bindingId, runtimeThreadId: turn.threadId,
    };
  }

  async ping() {
    let answered = false;
    const before = this.#socket.onText;
    this.#socket.onText = (text) => {
      const push = JSON.parse(text);
      if (push.ok === true && push.serverTime) answered = true;
      else before(text);
      this.#look();
    };
    this.#say({ type: 'ping' });
    await this.until('a pong', () => answered);
    this.#socket.onText = before;
  }

  cut() {
    const socket = this.#socket;
    this.#socket = null;
    socket.cut();
  }

  close() { this.#socket.close(); }

  #say(frame) { this.#socket.send(JSON.stringify(frame)); }

  async until(what, holds) {
    const timer = setTimeout(() => {
      this.fault = new ContractError(`waited in vain for ${what}`);
      this.#look();
    }, WAIT);
    try {
      for (;;) {
        if (this.fault) throw this.fault;
        if (holds()) return;
        if (this.closeCode !== null) throw new ContractError(`closed with ${this.closeCode} while waiting for ${what}`);
        await new Promise((resolve) => { this.#waiting.push(resolve); });
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #look() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

const hex = (bytes) => randomBytes(bytes).toString('hex');

function newTurn(of) {
  return {
    turnId: `local_turn_${hex(12)}`, operationKey: `op-${hex(8)}`,
    bindingId: of?.bindingId ?? `binding-${hex(8)}`, threadId: of?.threadId ?? `local_thread_${hex(12)}`,
  };
}

async function scenario(url, settings) {
  const plane = new ControlPlane(url, settings);
  await plane.connect();
  await plane.attach();
  await plane.until('the catalog', () => plane.run.catalog);
  must(plane.run.catalog.challenge === plane.challenge, 'the catalog does not echo the challenge (RH15)');
  await plane.ping();

  // A turn from its prompt to its end.
  const first = newTurn();
  const applied = await plane.command(plane.prompt(first, 'count to 20'));
  must(applied.status === 'applied' && applied.commandType === 'prompt.request' && applied.turnId === first.turnId, `ack ${JSON.stringify(applied)}`);
  await plane.until('the end of the first turn', () => plane.run.turn(first.turnId).status !== null);

  // A turn that is stopped.
  const second = newTurn(first);
  await plane.command(plane.prompt(second, 'count to 100000'));
  await plane.until('some text', () => plane.run.turn(second.turnId).deltas >= 3);
  const stopped = await plane.command(plane.interrupt(second, 'enough'));
  must(stopped.status === 'applied' && stopped.commandType === 'run.control', `ack ${JSON.stringify(stopped)}`);
  await plane.until('the end of the second turn', () => plane.run.turn(second.turnId).status !== null);

  // A turn whose connection breaks twice: in its middle, and with a command on its way.
  const third = newTurn(first);
  await plane.command(plane.prompt(third, 'count to 400'));
  await plane.until('some text', () => plane.run.turn(third.turnId).deltas >= 5);
  plane.cut();
  await plane.connect();
  await plane.attach();
  await plane.until('the end of the third turn', () => plane.run.turn(third.turnId).status !== null);
  const fourth = newTurn(first);
  const lost = plane.commandIntoNothing(plane.prompt(fourth, 'count to 30'));
  await plane.connect();
  await plane.attach();
  await plane.until('an answer to the lost command', () => plane.run.acks.has(lost));
  must(plane.run.acks.get(lost).status === 'applied', `ack ${JSON.stringify(plane.run.acks.get(lost))}`);
  await plane.until('the end of the fourth turn', () => plane.run.turn(fourth.turnId).status !== null);
  plane.close();
  return {
    runner: plane.run.attached.runner, events: plane.run.cursor, connections: 3,
    turns: [first, second, third, fourth].map(({ turnId }) => plane.run.turn(turnId)),
  };
}

async function main() {
  let input = '';
  for await (const part of process.stdin) input += part;
  const result = await scenario(process.argv[2], JSON.parse(input));
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exitCode = 1;
  });
}
