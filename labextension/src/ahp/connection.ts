/**
 * The connection to a host, kept for as long as its page lives: it connects, says hello, notices a
 * dead socket, comes back for ever with growing waits, and catches up by `reconnect` (AHP 1.4, 1.7).
 *
 * What the channels hold is not its business: it tells a `Mirror` (the store) what arrives, in the
 * order in which it arrives.
 */

import { systemClock, type Clock, type Wake } from './clock';
import { asError, ConnectionLost, ErrorCode, HandshakeRefused, RpcError } from './errors';
import { uuid } from './ids';
import type { Params } from './jsonrpc';
import { Link, type Answer, type Close, type Liveness } from './link';
import type { OpenSocket, SocketLike } from './socket';
import type {
  ActionEnvelope,
  Implementation,
  InitializeResult,
  ReconnectResult,
  URI
} from './types';
import { ROOT } from './uris';
import { OFFERED_VERSIONS } from './versions';

export interface ConnectionState {
  /**
   * `connecting`: a try is under way. `open`. `waiting`: for the next try, at `nextTryAt`.
   * `refused`: the host will not have this client, see `reason`; only `retryNow` tries again.
   * `closed`: by `close()`, or not started.
   */
  readonly status: 'connecting' | 'open' | 'waiting' | 'refused' | 'closed';
  /** Tries since it was last open, this one included; 0 while it is open. */
  readonly attempt: number;
  /** Milliseconds since the epoch; while `waiting`. */
  readonly nextTryAt?: number;
  /** For people: why it is not open. */
  readonly reason?: string;
}

/** How a handshake ended: a new beginning, or what was missed. */
export type Opened =
  { readonly type: 'initialized'; readonly result: InitializeResult } | ReconnectResult;

/** Who keeps the states that the host sends. All calls are in the order of the frames. */
export interface Mirror {
  /** The channels with a state here, which a reconnect shall bring up to date; the root first. */
  channels(): readonly URI[];
  /** Before anything else that arrives on the new socket. */
  opened(outcome: Opened): void;
  action(envelope: ActionEnvelope): void;
  /** Every other notification, `root/sessionAdded` and the like. */
  notification(method: string, params: Params): void;
  lost(close: Close): void;
}

export type RequestHandler = (params: Params) => unknown;

export interface ConnectionOptions {
  readonly open: OpenSocket;
  /**
   * New for each connection object (default: a UUID): the host remembers which of a client's
   * numbered actions it has taken.
   */
  readonly clientId?: string;
  readonly clientInfo?: Implementation;
  readonly locale?: string;
  readonly protocolVersions?: readonly string[];
  /** Tells when trying again at once is worth it; `browserWake(window, document)` in a page. */
  readonly wake?: Wake;
  readonly clock?: Clock;
  readonly liveness?: Partial<Liveness>;
  /** How long one try may take, to the end of the handshake. */
  readonly handshakeMs?: number;
  /** Where oddities of the host's are logged. */
  readonly complain?: (message: string) => void;
}

const DEFAULT_LIVENESS: Liveness = { pingAfterMs: 10_000, deadAfterMs: 20_000, probeMs: 5_000 };
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 30_000;
/** A connection that lived so long was a good one: the next wait is short again. */
const STEADY_MS = 10_000;
const POLICY_VIOLATION = 1008;

export class AhpConnection {
  readonly clientId: string;
  readonly clientInfo: Implementation;
  readonly #options: ConnectionOptions;
  readonly #clock: Clock;
  readonly #liveness: Liveness;
  readonly #complain: (message: string) => void;
  readonly #watchers = new Set<() => void>();
  readonly #handlers = new Map<string, RequestHandler>();
  #mirror: Mirror | undefined;
  #state: ConnectionState = { status: 'closed', attempt: 0 };
  #host: InitializeResult | undefined;
  #lastSeen = 0;
  /** The try or socket that counts; what an older one still says is not heard. */
  #link: Link | undefined;
  #try: object | undefined;
  #timer: unknown;
  #failures = 0;
  #openedAt = 0;
  #unwake: (() => void) | undefined;
  /** Requests made while the first socket opens. */
  #queued: { method: string; params: Params; answer: Answer }[] = [];

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.clientId = options.clientId ?? uuid();
    this.clientInfo = options.clientInfo ?? { name: 'jupyter-ahp-lab' };
    this.#clock = options.clock ?? systemClock;
    this.#liveness = { ...DEFAULT_LIVENESS, ...options.liveness };
    this.#complain = options.complain ?? (message => console.warn(`jupyter-ahp: ${message}`));
  }

  /** What the host said at the last `initialize`: its name, trigger characters, directories. */
  get host(): InitializeResult | undefined {
    return this.#host;
  }

  /** The state now; a new object exactly when it changed. */
  getState = (): ConnectionState => this.#state;

  /** Calls `listener` at every change of the state; returns the undo. */
  watch = (listener: () => void): (() => void) => {
    this.#watchers.add(listener);
    return () => this.#watchers.delete(listener);
  };

  /** Who is told what arrives. Once, before `start`. */
  attach(mirror: Mirror): void {
    if (this.#mirror) {
      throw new Error('This connection has its store already');
    }
    this.#mirror = mirror;
  }

  /** Answers the host's requests of that method (`resourceRead`, …); returns the undo. */
  handle(method: string, handler: RequestHandler): () => void {
    this.#handlers.set(method, handler);
    return () => {
      if (this.#handlers.get(method) === handler) {
        this.#handlers.delete(method);
      }
    };
  }

  start(): void {
    if (this.#state.status === 'closed') {
      this.#unwake = this.#options.wake?.(() => this.#woken());
      this.#connect();
    }
  }

  close(): void {
    this.#unwake?.();
    this.#clock.clearTimeout(this.#timer);
    this.#try = undefined;
    // Its end is not told: it is not lost, it is given back.
    this.#drop(1000, 'The client is done');
    this.#rejectQueued('The connection to the host was closed');
    this.#setState({ status: 'closed', attempt: 0 });
  }

  /** Does not wait for the next try; the way out of `refused`, too. */
  retryNow(): void {
    if (this.#state.status === 'waiting' || this.#state.status === 'refused') {
      this.#connect();
    }
  }

  /**
   * Asks the host. While a try is under way the request waits for it; without one it rejects at once.
   * Rejects with `RpcError` (the host's answer) or `ConnectionLost`.
   */
  request<T = unknown>(method: string, params: Params): Promise<T> {
    return new Promise<T>((resolve, reject) =>
      this.call(method, params, { ok: result => resolve(result as T), fail: reject })
    );
  }

  /** As `request`, with the answer in the tick in which it arrives. */
  call(method: string, params: Params, answer: Answer): void {
    if (this.#link && this.#state.status === 'open') {
      this.#link.call(method, params, answer);
    } else if (this.#state.status === 'connecting') {
      this.#queued.push({ method, params, answer });
    } else {
      answer.fail(new ConnectionLost(this.#state.reason ?? 'There is no connection to the host'));
    }
  }

  /** Sends a notification; false, and nothing sent, when there is no connection. */
  notify(method: string, params: Params): boolean {
    if (!this.#link || this.#state.status !== 'open') {
      return false;
    }
    this.#link.notify(method, params);
    return true;
  }

  // --- one try --------------------------------------------------------------------------------

  #connect(): void {
    this.#clock.clearTimeout(this.#timer);
    const current = (this.#try = {});
    this.#setState({
      status: 'connecting',
      attempt: this.#failures + 1,
      reason: this.#state.reason
    });
    this.#timer = this.#clock.setTimeout(
      () => this.#failed('The host did not answer in time'),
      this.#options.handshakeMs ?? 30_000
    );
    const use = (socket: SocketLike) => {
      if (this.#try === current) {
        this.#link = this.#linkOf(socket, current);
        this.#link.begin();
      } else {
        socket.close(1000, 'No longer needed');
      }
    };
    const fail = (error: unknown) => {
      if (this.#try === current) {
        this.#failed(asError(error).message, error instanceof HandshakeRefused);
      }
    };
    try {
      const socket = this.#options.open();
      if ('then' in socket) {
        socket.then(use).catch(fail);
      } else {
        use(socket);
      }
    } catch (error) {
      fail(error);
    }
  }

  #linkOf(socket: SocketLike, current: object): Link {
    let open = false;
    const link: Link = new Link(
      socket,
      {
        opened: () => {
          open = true;
          this.#shakeHands(link);
        },
        notification: (method, params) => this.#notified(method, params),
        request: (method, params) => this.#asked(method, params),
        closed: close => {
          if (this.#try === current) {
            this.#closed(close, open);
          }
        },
        complain: this.#complain
      },
      this.#clock,
      this.#liveness
    );
    return link;
  }

  #shakeHands(link: Link): void {
    if (!this.#host) {
      this.#initialize(link);
      return;
    }
    const params = {
      channel: ROOT,
      clientId: this.clientId,
      lastSeenServerSeq: this.#lastSeen,
      subscriptions: this.#mirror?.channels() ?? []
    };
    link.call('reconnect', params, {
      ok: result => this.#caughtUp(result as ReconnectResult),
      // Whatever the reason for which the host cannot continue: a new beginning is always right.
      fail: error => {
        if (error instanceof RpcError && !isRefusal(error)) {
          this.#initialize(link);
        } else {
          this.#handshakeFailed(error);
        }
      }
    });
  }

  #initialize(link: Link): void {
    const versions = this.#options.protocolVersions ?? OFFERED_VERSIONS;
    const params = {
      channel: ROOT,
      protocolVersions: versions,
      clientId: this.clientId,
      clientInfo: this.clientInfo,
      initialSubscriptions: [ROOT],
      ...(this.#options.locale ? { locale: this.#options.locale } : {})
    };
    link.call('initialize', params, {
      ok: answer => {
        const result = answer as InitializeResult;
        if (!versions.includes(result?.protocolVersion)) {
          const words = `The host chose AHP ${result?.protocolVersion}, which this client did not offer`;
          this.#handshakeFailed(new HandshakeRefused(words));
          return;
        }
        this.#host = result;
        this.#lastSeen = result.serverSeq;
        this.#isOpen({ type: 'initialized', result });
      },
      fail: error => this.#handshakeFailed(error)
    });
  }

  #caughtUp(result: ReconnectResult): void {
    if (result.type === 'replay') {
      for (const { serverSeq } of result.actions) {
        this.#lastSeen = Math.max(this.#lastSeen, serverSeq);
      }
    } else if (result.snapshots.length > 0) {
      // The oldest one: what came after it on the others is told apart by their own numbers.
      const oldest = Math.min(...result.snapshots.map(({ fromSeq }) => fromSeq));
      this.#lastSeen = Math.max(this.#lastSeen, oldest);
    }
    this.#isOpen(result);
  }

  #isOpen(outcome: Opened): void {
    this.#clock.clearTimeout(this.#timer);
    this.#openedAt = this.#clock.now();
    this.#state = { status: 'open', attempt: 0 };
    this.#mirror?.opened(outcome);
    const queued = this.#queued;
    this.#queued = [];
    for (const { method, params, answer } of queued) {
      this.call(method, params, answer);
    }
    this.#tell();
  }

  // --- its end --------------------------------------------------------------------------------

  #handshakeFailed(error: Error): void {
    if (error instanceof ConnectionLost) {
      return; // The close that caused it says more.
    }
    this.#failed(words(error), error instanceof HandshakeRefused || isRefusal(error));
  }

  #closed(close: Close, wasOpen: boolean): void {
    const refused = close.code === POLICY_VIOLATION && this.#state.status !== 'open';
    const why =
      close.reason || `The connection to the host ${wasOpen ? 'was lost' : 'could not be made'}`;
    this.#link = undefined;
    if (this.#state.status === 'open') {
      if (this.#clock.now() - this.#openedAt >= STEADY_MS) {
        this.#failures = 0;
      }
      this.#retryLater(why);
      this.#mirror?.lost(close);
      this.#tell();
    } else {
      this.#failed(why, refused);
    }
  }

  #failed(reason: string, refused = false): void {
    this.#drop(1000, 'The handshake failed');
    if (refused) {
      this.#clock.clearTimeout(this.#timer);
      this.#try = undefined;
      this.#state = { status: 'refused', attempt: this.#failures + 1, reason };
    } else {
      this.#retryLater(reason);
    }
    this.#rejectQueued(reason);
    this.#tell();
  }

  #retryLater(reason: string): void {
    this.#clock.clearTimeout(this.#timer);
    this.#try = undefined;
    this.#failures += 1;
    const longest = Math.min(
      LONGEST_WAIT_MS,
      FIRST_WAIT_MS * 2 ** Math.min(this.#failures - 1, 10)
    );
    // Half of it by chance, so that a host that comes back is not met by all its clients at once.
    const wait = longest * (0.5 + 0.5 * this.#clock.random());
    this.#state = {
      status: 'waiting',
      attempt: this.#failures,
      nextTryAt: this.#clock.now() + wait,
      reason
    };
    this.#timer = this.#clock.setTimeout(() => this.#connect(), wait);
  }

  #drop(code: number, reason: string): void {
    const link = this.#link;
    this.#link = undefined;
    this.#try = undefined;
    link?.close(code, reason);
  }

  #rejectQueued(reason: string): void {
    const queued = this.#queued;
    this.#queued = [];
    for (const { answer } of queued) {
      answer.fail(new ConnectionLost(reason));
    }
  }

  #woken(): void {
    if (this.#state.status === 'waiting') {
      this.#connect();
    } else if (this.#state.status === 'open') {
      this.#link?.probe();
    }
  }

  // --- what arrives ---------------------------------------------------------------------------

  #notified(method: string, params: Params): void {
    if (method !== 'action') {
      this.#mirror?.notification(method, params);
      return;
    }
    const envelope = params as unknown as ActionEnvelope;
    this.#lastSeen = Math.max(this.#lastSeen, envelope.serverSeq);
    this.#mirror?.action(envelope);
  }

  #asked(method: string, params: Params): unknown {
    const handler = this.#handlers.get(method);
    if (!handler) {
      throw new RpcError(ErrorCode.MethodNotFound, `This client does not serve "${method}"`);
    }
    return handler(params);
  }

  #setState(state: ConnectionState): void {
    this.#state = state;
    this.#tell();
  }

  #tell(): void {
    for (const watcher of [...this.#watchers]) {
      watcher();
    }
  }
}

function isRefusal(error: Error): boolean {
  return (
    error instanceof RpcError &&
    (error.code === ErrorCode.UnsupportedProtocolVersion ||
      error.code === ErrorCode.AuthRequired ||
      error.code === ErrorCode.PermissionDenied)
  );
}

function words(error: Error): string {
  if (error instanceof RpcError && error.code === ErrorCode.UnsupportedProtocolVersion) {
    const served = (error.data as { supportedVersions?: readonly string[] } | undefined)
      ?.supportedVersions;
    return (
      `The host speaks AHP ${served?.join(', ') ?? 'of another version'}, ` +
      `this page speaks ${OFFERED_VERSIONS.join(' and ')}. Bring jupyter-ahp on the server and ` +
      'this page to the same version, then reload.'
    );
  }
  return error.message;
}
