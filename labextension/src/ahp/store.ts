/**
 * The states of a host's channels as a client sees them, and the way to change them: subscribe,
 * read, watch, dispatch (AHP 1.6, 1.8). Own actions show at once and are taken back when the host
 * refuses them; while offline they wait and go out, in order, under the numbers they have.
 */

import type { AhpAction } from './actions';
import { offerLimit, uploadPlace } from './beyond';
import { SessionCatalogue } from './catalogue';
import type { ChannelView } from './channel';
import { frameSchedule, systemClock, type Clock, type Schedule } from './clock';
import type { AhpConnection } from './connection';
import { ConnectionLost } from './errors';
import type { Params } from './jsonrpc';
import { Offers } from './offers';
import { Replica, type RefusedAction, type SubscribeOptions, type Subscription } from './replica';
import { Resources } from './resources';
import type {
  AnyState,
  ChatState,
  CompletionItem,
  Config,
  CreateChatParams,
  CreateSessionParams,
  ResolveSessionConfigParams,
  SessionConfigPropertySchema,
  URI
} from './types';
import { upload } from './uploads';
import { newChatUri, newSessionUri, ROOT } from './uris';

export interface StoreOptions {
  /** When listeners are told; once for each run. Default: the next animation frame. */
  readonly schedule?: Schedule;
  readonly clock?: Clock;
  /** How long a channel is kept after its last release. */
  readonly graceMs?: number;
  /** Where trouble that nobody asked about is logged. */
  readonly complain?: (message: string) => void;
}

export class AhpStore {
  readonly connection: AhpConnection;
  /** The live list of sessions. */
  readonly sessions: SessionCatalogue;
  /** What only this client has, for the host to read. */
  readonly offers: Offers;
  /** What messages and answers name by a URI. */
  readonly resources: Resources;
  readonly #replica: Replica;
  readonly #schedule: Schedule;
  readonly #refusedListeners = new Set<(refused: RefusedAction) => void>();
  readonly #notificationListeners = new Set<(method: string, params: Params) => void>();
  readonly #loadingTurns = new Map<URI, Promise<void>>();
  #scheduled = false;

  constructor(connection: AhpConnection, options: StoreOptions = {}) {
    this.connection = connection;
    this.#schedule = options.schedule ?? frameSchedule;
    const changed = () => this.#tellLater();
    this.sessions = new SessionCatalogue(
      (method, params) => connection.request(method, params),
      changed
    );
    this.offers = new Offers(connection.clientId);
    this.resources = new Resources(
      (method, params) => connection.request(method, params),
      this.offers
    );
    connection.handle('resourceRead', this.offers.read);
    const replica = (this.#replica = new Replica(connection, {
      clock: options.clock ?? systemClock,
      graceMs: options.graceMs ?? 5_000,
      complain: options.complain ?? (message => console.error(`jupyter-ahp: ${message}`)),
      changed,
      refused: refused => [...this.#refusedListeners].forEach(listener => listener(refused))
    }));
    connection.attach({
      channels: () => replica.channels(),
      opened: outcome => {
        replica.opened(outcome);
        void this.sessions.refresh();
      },
      action: envelope => replica.action(envelope),
      notification: (method, params) => this.#notified(method, params),
      lost: close => replica.lost(close)
    });
    this.subscribe(ROOT);
  }

  // --- reading --------------------------------------------------------------------------------

  /**
   * Keeps a channel up to date until it is released, and a few seconds longer. Any number of
   * parties may hold one channel. One that was `missing` or `failed` is tried again.
   */
  subscribe(channel: URI, options: SubscribeOptions = {}): Subscription {
    return this.#replica.subscribe(channel, options);
  }

  /** The state as a person should see it; undefined while there is none. */
  getState<S extends AnyState = AnyState>(channel: URI): S | undefined {
    return this.getChannel<S>(channel).state;
  }

  /** State, status and unanswered actions; the same object until something in it changes. */
  getChannel<S extends AnyState = AnyState>(channel: URI): ChannelView<S> {
    return this.#replica.view(channel) as ChannelView<S>;
  }

  /** Calls `listener` after changes of the channel, gathered by the schedule; returns the undo. */
  watch(channel: URI, listener: () => void): () => void {
    return this.#replica.watch(channel, listener);
  }

  // --- changing -------------------------------------------------------------------------------

  /**
   * Sends an action, now or when there is a connection; returns its number. The host's refusal is
   * told to `onRefused`. The channel is held until the host has answered.
   */
  dispatch(channel: URI, action: AhpAction): number {
    return this.#replica.dispatch(channel, action);
  }

  /** As `dispatch`; resolves when the host has taken the action. Rejects with `Refused` or `Withdrawn`. */
  dispatched(channel: URI, action: AhpAction): Promise<void> {
    return new Promise((resolve, reject) =>
      this.#replica.dispatch(channel, action, { resolve, reject })
    );
  }

  /** Takes an action back that was never sent; false when it is too late. */
  withdraw(clientSeq: number): boolean {
    return this.#replica.withdraw(clientSeq);
  }

  /** Sends another action in the place of one that was never sent, under its number; false when it is too late. */
  revise(clientSeq: number, action: AhpAction): boolean {
    return this.#replica.revise(clientSeq, action);
  }

  /** Calls `listener` for every refused action; returns the undo. */
  onRefused(listener: (refused: RefusedAction) => void): () => void {
    this.#refusedListeners.add(listener);
    return () => this.#refusedListeners.delete(listener);
  }

  /** Calls `listener` for every notification that is no action (`auth/required`, …); returns the undo. */
  onNotification(listener: (method: string, params: Params) => void): () => void {
    this.#notificationListeners.add(listener);
    return () => this.#notificationListeners.delete(listener);
  }

  // --- asking ---------------------------------------------------------------------------------
  // All reject with `RpcError` or `ConnectionLost`.

  /** Makes a session; resolves with its URI while it may still be `creating`. */
  async createSession(params: CreateSessionParams): Promise<URI> {
    const { channel = newSessionUri(), ...rest } = params;
    await this.connection.request('createSession', { channel, ...rest });
    return channel;
  }

  /**
   * Holds a file for a message to name: at the host, where it has a place for that, else here, to be read by it. What is at
   * the host outlives this page. Rejects with the host's reason.
   */
  async attach(file: Blob, name: string): Promise<URI> {
    const { connection } = this;
    let uri: URI | undefined;
    if (connection.getState().status === 'open') {
      uri = await upload(
        (method, params) => connection.request(method, params),
        connection.host,
        file
      ).catch((error: unknown) => {
        if (error instanceof ConnectionLost) {
          return undefined; // it goes when the connection is back, as the message does
        }
        throw error;
      });
    }
    if (uri === undefined) {
      const most = offerLimit(connection.host);
      if (most && file.size > most) {
        throw new Error(
          'It is too large to wait here for the connection. Try again when it is back.'
        );
      }
      return this.offers.offer(file, name);
    }
    this.offers.remember(uri, file);
    return uri;
  }

  /** Gives up what was held for a message that is not sent after all. */
  detach(uri: URI): void {
    this.offers.withdraw(uri);
    const place = uploadPlace(this.connection.host);
    if (place && uri.startsWith(place.uri)) {
      this.connection.request('resourceDelete', { channel: ROOT, uri }).catch(() => undefined); // the host removes in a day what no message took
    }
  }

  async disposeSession(session: URI): Promise<void> {
    await this.connection.request('disposeSession', { channel: session });
  }

  /** Makes a chat in a session; resolves with its URI. */
  async createChat(session: URI, params: CreateChatParams = {}): Promise<URI> {
    const { chat = newChatUri(), ...rest } = params;
    await this.connection.request('createChat', { channel: session, chat, ...rest });
    return chat;
  }

  async disposeChat(chat: URI): Promise<void> {
    await this.connection.request('disposeChat', { channel: chat });
  }

  /**
   * Moves a chat behind another one of its session or of another, or (`after` absent) to the front; without a session into
   * one of its own. Resolves with the session that it is in then.
   */
  async moveChat(chat: URI, session?: URI, after?: URI): Promise<URI> {
    const destination = session
      ? { kind: 'session', session, ...(after ? { after } : {}) }
      : { kind: 'newSession' };
    const moved = await this.connection.request<{ session: URI }>('moveChat', {
      channel: chat,
      destination
    });
    return moved.session;
  }

  /** Brings back what the last rewind cut; resolves with how many turns. Ours, beyond the protocol. */
  async undoRewind(chat: URI): Promise<number> {
    const { turns } = await this.connection.request<{ turns: number }>('x-jupyter-ahp/undoRewind', {
      channel: chat
    });
    return turns;
  }

  /** Loads older turns of a chat into its state; at once when there are none, or it is loading already. */
  fetchTurns(chat: URI): Promise<void> {
    const loading = this.#loadingTurns.get(chat);
    const cursor = (this.#replica.confirmed(chat) as ChatState | undefined)?.turnsNextCursor;
    if (loading || cursor == null) {
      return loading ?? Promise.resolve();
    }
    const request = this.connection
      .request('fetchTurns', { channel: chat, cursor })
      .then(() => undefined)
      .finally(() => this.#loadingTurns.delete(chat));
    this.#loadingTurns.set(chat, request);
    return request;
  }

  resolveSessionConfig(
    params: ResolveSessionConfigParams
  ): Promise<Config<SessionConfigPropertySchema>> {
    return this.connection.request('resolveSessionConfig', { channel: ROOT, ...params });
  }

  /** What fits at `offset` (UTF-16 units) of a message being written. */
  async completions(chat: URI, text: string, offset: number): Promise<readonly CompletionItem[]> {
    const params = { channel: chat, kind: 'userMessage', text, offset };
    const { items } = await this.connection.request<{ items: CompletionItem[] }>(
      'completions',
      params
    );
    return items;
  }

  /** Ends the connection. Nothing is told any more. */
  dispose(): void {
    this.connection.close();
    this.#replica.dispose();
  }

  #notified(method: string, params: Params): void {
    this.sessions.notified(method, params);
    if (method === 'root/sessionRemoved') {
      this.#replica.sessionRemoved(params.session as URI);
    }
    for (const listener of [...this.#notificationListeners]) {
      listener(method, params);
    }
  }

  #tellLater(): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      this.#schedule(() => {
        this.#scheduled = false;
        this.#replica.tell();
        this.sessions.tell();
      });
    }
  }
}
