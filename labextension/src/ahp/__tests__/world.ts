/**
 * A host in memory, sockets that deliver when they are told to, and a clock in the test's hand. The
 * host reduces with the package's reducers; its numbering, echo, refusal, replay and deduplication
 * follow AHP 1.4 to 1.8.
 */

import { AhpConnection, AhpStore, REDUCERS, ROOT, channelKind, sameJson } from '..';
import type {
  ActionEnvelope,
  AhpAction,
  AnyState,
  ChatState,
  ConnectionOptions,
  Reducer,
  SocketLike
} from '..';
import type { Clock } from '../clock';

export class ManualClock implements Clock {
  time = 1_000_000;
  chance = 0.5;
  #timers: { at: number; run: () => void }[] = [];

  now(): number {
    return this.time;
  }

  setTimeout(run: () => void, ms: number): unknown {
    const timer = { at: this.time + ms, run };
    this.#timers.push(timer);
    return timer;
  }

  clearTimeout(timer: unknown): void {
    this.#timers = this.#timers.filter(other => other !== timer);
  }

  random(): number {
    return this.chance;
  }

  get waiting(): number {
    return this.#timers.length;
  }

  /** Lets time pass, running what falls due in its order. */
  advance(ms: number): void {
    const end = this.time + ms;
    for (;;) {
      const next = this.#timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) {
        break;
      }
      this.#timers = this.#timers.filter(timer => timer !== next);
      this.time = Math.max(this.time, next.at);
      next.run();
    }
    this.time = end;
  }
}

type Message = Record<string, any>;

export class FakeSocket implements SocketLike {
  readyState = 0;
  onopen: ((event: any) => void) | null = null;
  onmessage: ((event: any) => void) | null = null;
  onclose: ((event: any) => void) | null = null;
  onerror: ((event: any) => void) | null = null;
  /** Everything that the client sent, parsed. */
  readonly sent: Message[] = [];
  closedWith: { code?: number; reason?: string } | undefined;
  clientId = '';
  readonly subscribed = new Set<string>();
  up: Message[] = [];
  down: string[] = [];

  constructor(readonly host: FakeHost) {}

  send(text: string): void {
    if (this.readyState !== 1) {
      throw new Error('The socket is not open');
    }
    const message = JSON.parse(text) as Message;
    this.sent.push(message);
    this.up.push(message);
  }

  close(code?: number, reason?: string): void {
    this.closedWith = { code, reason };
    this.readyState = 3;
    this.host.sockets.delete(this);
  }

  accept(): void {
    this.readyState = 1;
    this.host.sockets.add(this);
    this.onopen?.({});
  }

  /** The network or the host ends it. */
  drop(code = 1006, reason = ''): void {
    this.readyState = 3;
    this.host.sockets.delete(this);
    this.onclose?.({ code, reason });
  }

  deliver(message: unknown): void {
    this.onmessage?.({ data: typeof message === 'string' ? message : JSON.stringify(message) });
  }

  /** Lets so many messages arrive at the host, and at the client. */
  async pump(up = Infinity, down = Infinity): Promise<void> {
    for (; up > 0 && this.up.length > 0 && this.readyState === 1; up--) {
      this.host.receive(this, this.up.shift()!);
    }
    for (; down > 0 && this.down.length > 0 && this.readyState === 1; down--) {
      this.deliver(this.down.shift()!);
    }
    await ticks();
  }

  requests(method: string): Message[] {
    return this.sent.filter(message => message.method === method);
  }
}

/** Lets promises settle. */
export async function ticks(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await Promise.resolve();
  }
}

export function rpcError(code: number, message: string, data?: unknown): Message {
  return { error: { code, message, data } };
}

export class FakeHost {
  seq = 100;
  readonly states = new Map<string, AnyState>();
  readonly sockets = new Set<FakeSocket>();
  /** Every accepted action, in its order: what a replay is cut from. */
  log: ActionEnvelope[] = [];
  /** Envelopes up to this number are no longer in the buffer. */
  floor = 0;
  readonly clients = new Map<string, Map<number, ActionEnvelope>>();
  /** `<clientId>:<clientSeq>` of each action that was carried out, in order. */
  readonly applied: string[] = [];
  /** Says why an action is refused; undefined = it is not. */
  refuses: (channel: string, action: AhpAction) => string | undefined = () => undefined;
  /** Answers to requests, instead of the host's own; `undefined` = its own. */
  answers: Record<string, (params: Message, socket: FakeSocket) => Message | undefined | null> = {};
  sessionPages: Message[] = [{ items: [] }];
  silent = false;

  constructor() {
    this.states.set(ROOT, { agents: [] });
  }

  receive(socket: FakeSocket, message: Message): void {
    if (this.silent) {
      return;
    }
    if (message.method === 'dispatchAction') {
      this.#dispatched(socket, message.params);
    } else if (message.method === 'unsubscribe') {
      socket.subscribed.delete(message.params.channel);
    } else if (message.method !== undefined && message.id !== undefined) {
      const own = this.answers[message.method]?.(message.params, socket);
      if (own === null) {
        return;
      }
      const answer = own ?? this.#answer(socket, message.method, message.params);
      socket.down.push(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...answer }));
    }
  }

  /** An action of the host's own, to all who subscribed. */
  emit(channel: string, action: AhpAction, origin?: ActionEnvelope['origin']): void {
    const reduce = REDUCERS[channelKind(channel)!] as Reducer<AnyState>;
    this.states.set(channel, reduce(this.states.get(channel)!, action));
    const envelope: ActionEnvelope = {
      channel,
      action,
      serverSeq: ++this.seq,
      ...(origin ? { origin } : {})
    };
    this.log.push(envelope);
    this.#send(envelope, socket => socket.subscribed.has(channel));
    if (origin) {
      this.clients.get(origin.clientId)?.set(origin.clientSeq, envelope);
    }
  }

  notify(method: string, params: Message): void {
    for (const socket of this.sockets) {
      socket.down.push(JSON.stringify({ jsonrpc: '2.0', method, params }));
    }
  }

  snapshot(channel: string): Message {
    return { resource: channel, state: this.states.get(channel), fromSeq: this.seq };
  }

  #send(envelope: ActionEnvelope, to: (socket: FakeSocket) => boolean): void {
    const frame = JSON.stringify({ jsonrpc: '2.0', method: 'action', params: envelope });
    for (const socket of this.sockets) {
      if (to(socket)) {
        socket.down.push(frame);
      }
    }
  }

  #answer(socket: FakeSocket, method: string, params: Message): Message {
    switch (method) {
      case 'ping':
        return { result: null };
      case 'initialize': {
        socket.clientId = params.clientId;
        if (!this.clients.has(params.clientId)) {
          this.clients.set(params.clientId, new Map());
        }
        const known = (params.initialSubscriptions as string[]).filter(uri => this.states.has(uri));
        known.forEach(uri => socket.subscribed.add(uri));
        return {
          result: {
            protocolVersion: '1.0.0',
            serverSeq: this.seq,
            completionTriggerCharacters: ['@', '#', '/'],
            terminalCommandPrefix: '!',
            snapshots: known.map(uri => this.snapshot(uri))
          }
        };
      }
      case 'reconnect':
        return this.#reconnect(socket, params);
      case 'subscribe':
        if (!this.states.has(params.channel)) {
          return rpcError(-32001, `Resource not found: ${params.channel}`);
        }
        socket.subscribed.add(params.channel);
        return { result: { snapshot: this.snapshot(params.channel) } };
      case 'listSessions':
        return { result: this.sessionPages[Number(params.cursor ?? 0)] };
      case 'createSession':
      case 'createChat':
      case 'disposeSession':
      case 'disposeChat':
        return { result: null };
      default:
        return rpcError(-32601, `This host has no method "${method}"`);
    }
  }

  #reconnect(socket: FakeSocket, params: Message): Message {
    if (!this.clients.has(params.clientId)) {
      return rpcError(-32008, 'This host does not know the client');
    }
    socket.clientId = params.clientId;
    const wanted = params.subscriptions as string[];
    const known = wanted.filter(uri => this.states.has(uri));
    known.forEach(uri => socket.subscribed.add(uri));
    if (params.lastSeenServerSeq < this.floor) {
      return { result: { type: 'snapshot', snapshots: known.map(uri => this.snapshot(uri)) } };
    }
    const actions = this.log.filter(
      ({ serverSeq, channel }) => serverSeq > params.lastSeenServerSeq && known.includes(channel)
    );
    const missing = wanted.filter(uri => !this.states.has(uri));
    return { result: { type: 'replay', actions, missing } };
  }

  #dispatched(socket: FakeSocket, { channel, clientSeq, action }: Message): void {
    const { clientId } = socket;
    const taken = this.clients.get(clientId);
    if (!taken || !this.states.has(channel)) {
      return;
    }
    const origin = { clientId, clientSeq };
    const before = taken.get(clientSeq);
    if (before) {
      const rejectionReason = before.rejectionReason ?? this.#changedSince(channel, action);
      const isStart = action.type === 'chat/turnStarted';
      if (rejectionReason !== undefined || !isStart) {
        // Done once, and said again to its sender alone.
        const again = { channel, action, origin, serverSeq: ++this.seq, rejectionReason };
        this.#send(again, other => other === socket);
      }
      return;
    }
    const reason = this.refuses(channel, action);
    if (reason !== undefined) {
      const envelope = { channel, action, origin, serverSeq: ++this.seq, rejectionReason: reason };
      taken.set(clientSeq, envelope);
      this.#send(envelope, other => other === socket);
      return;
    }
    this.applied.push(`${clientId}:${clientSeq}`);
    this.emit(channel, action, origin);
  }

  /** Why an action that was carried out cannot be confirmed once more: saying it again would do something. */
  #changedSince(channel: string, action: AhpAction): string | undefined {
    const state = this.states.get(channel)!;
    const reduce = REDUCERS[channelKind(channel)!] as Reducer<AnyState>;
    const { turns, activeTurn } = state as ChatState;
    const done =
      action.type === 'chat/turnStarted'
        ? activeTurn?.id === action.turnId || turns.some(({ id }) => id === action.turnId)
        : sameJson(reduce(state, action), state);
    return done ? undefined : 'This was done already, and changed since';
  }
}

/** A host, a connection with its store, and the means to let things happen. */
export class World {
  readonly clock = new ManualClock();
  readonly host = new FakeHost();
  readonly sockets: FakeSocket[] = [];
  readonly complaints: string[] = [];
  readonly connection: AhpConnection;
  readonly store: AhpStore;
  wake: () => void = () => undefined;
  /** Whether sockets open by themselves. */
  accepting = true;
  #frames: (() => void)[] = [];

  constructor(options: Partial<ConnectionOptions> = {}) {
    this.connection = new AhpConnection({
      open: () => {
        const socket = new FakeSocket(this.host);
        this.sockets.push(socket);
        return socket;
      },
      clientId: 'me',
      clock: this.clock,
      wake: listener => {
        this.wake = listener;
        return () => undefined;
      },
      complain: message => this.complaints.push(message),
      ...options
    });
    this.store = new AhpStore(this.connection, {
      clock: this.clock,
      schedule: run => this.#frames.push(run),
      complain: message => this.complaints.push(message)
    });
  }

  get socket(): FakeSocket {
    return this.sockets.at(-1)!;
  }

  get status(): string {
    return this.connection.getState().status;
  }

  async start(): Promise<this> {
    this.connection.start();
    await this.settle();
    return this;
  }

  /** Delivers everything there is to deliver, in both directions. */
  async settle(): Promise<void> {
    await ticks();
    for (let quiet = 0; quiet < 2; quiet++) {
      for (const socket of this.sockets) {
        if (socket.readyState === 0 && this.accepting && !socket.closedWith) {
          socket.accept();
          quiet = 0;
        }
        if (socket.readyState === 1 && socket.up.length + socket.down.length > 0) {
          await socket.pump();
          quiet = 0;
        }
      }
      await ticks();
    }
  }

  /** Draws one frame: tells the listeners. */
  frame(): void {
    const frames = this.#frames;
    this.#frames = [];
    frames.forEach(run => run());
  }

  /** Loses the connection and comes back. */
  async reconnect(code = 1006): Promise<void> {
    this.socket.drop(code);
    await ticks();
    this.connection.retryNow();
    await this.settle();
  }
}
