/**
 * The states of a host's channels as a client sees them, and the way to change them: subscribe,
 * read, watch, dispatch (AHP 1.6, 1.8). Own actions show at once and are taken back when the host
 * refuses them; while offline they wait and go out, in order, under the numbers they have.
 */

import type { AhpAction } from './actions';
import { SessionCatalogue } from './catalogue';
import { Channel, NO_CHANNEL, type ChannelView, type Pending } from './channel';
import { frameSchedule, systemClock, type Clock, type Schedule } from './clock';
import type { AhpConnection, Mirror, Opened } from './connection';
import { asError, ConnectionLost, isNotFound, Refused, Withdrawn } from './errors';
import type { Params } from './jsonrpc';
import type { Close } from './link';
import type {
  ActionEnvelope,
  AnyState,
  ChatState,
  CompletionItem,
  Config,
  CreateChatParams,
  CreateSessionParams,
  ResolveSessionConfigParams,
  SessionConfigPropertySchema,
  SessionState,
  Snapshot,
  URI
} from './types';
import { canonicalUri, channelKind, isUri, newChatUri, newSessionUri, ROOT } from './uris';

export interface RefusedAction {
  readonly channel: URI;
  readonly clientSeq: number;
  readonly action: AhpAction;
  /** For people. */
  readonly reason: string;
}

export interface SubscribeOptions {
  /** About how many of the newest ended turns of a chat to load at first; all when absent. */
  readonly turns?: number;
  /** How long the host may gather changes, in ms; 0 = not at all. */
  readonly maxLatencyMs?: number;
}

export interface Subscription {
  release(): void;
}

export interface StoreOptions {
  /** When listeners are told; once for each run. Default: the next animation frame. */
  readonly schedule?: Schedule;
  readonly clock?: Clock;
  /** How long a channel is kept after its last release. */
  readonly graceMs?: number;
  /** Where trouble that nobody asked about is logged. */
  readonly complain?: (message: string) => void;
}

/** A channel with who wants it. */
interface Entry {
  readonly channel: Channel;
  readonly holds: Set<SubscribeOptions>;
  /** The `subscribe` request whose answer counts. */
  asking?: object;
  grace?: unknown;
}

const TOO_LARGE = 1009;

/** How many ended turns its holders want. An unanswered action alone needs no history. */
function wantedTurns({ holds }: Entry): number {
  return Math.max(1, ...[...holds].map(hold => hold.turns ?? Infinity));
}

export class AhpStore {
  readonly connection: AhpConnection;
  /** The live list of sessions. */
  readonly sessions: SessionCatalogue;
  readonly #schedule: Schedule;
  readonly #clock: Clock;
  readonly #graceMs: number;
  readonly #complain: (message: string) => void;
  readonly #entries = new Map<URI, Entry>();
  readonly #refusedListeners = new Set<(refused: RefusedAction) => void>();
  readonly #notificationListeners = new Set<(method: string, params: Params) => void>();
  readonly #loadingTurns = new Map<URI, Promise<void>>();
  #clientSeq = 0;
  /** Which connection this is, counted from 1. */
  #generation = 0;
  #touched = new Set<Channel>();
  #scheduled = false;

  constructor(connection: AhpConnection, options: StoreOptions = {}) {
    this.connection = connection;
    this.#schedule = options.schedule ?? frameSchedule;
    this.#clock = options.clock ?? systemClock;
    this.#graceMs = options.graceMs ?? 5_000;
    this.#complain = options.complain ?? (message => console.error(`jupyter-ahp: ${message}`));
    this.sessions = new SessionCatalogue(
      (method, params) => connection.request(method, params),
      () => this.#tellLater()
    );
    connection.attach(this.#mirror);
    this.subscribe(ROOT);
  }

  // --- reading --------------------------------------------------------------------------------

  /**
   * Keeps a channel up to date until it is released, and a few seconds longer. Any number of
   * parties may hold one channel. One that was `missing` or `failed` is tried again.
   */
  subscribe(channel: URI, options: SubscribeOptions = {}): Subscription {
    const entry = this.#entry(channel);
    const hold = { ...options };
    const askedFor = entry.asking ? wantedTurns(entry) : 0;
    entry.holds.add(hold);
    this.#clock.clearTimeout(entry.grace);
    if (!this.#satisfies(entry, hold) && wantedTurns(entry) > askedFor) {
      this.#ask(entry);
    }
    return {
      release: () => {
        if (entry.holds.delete(hold)) {
          this.#forgetLater(entry);
        }
      }
    };
  }

  /** The state as a person should see it; undefined while there is none. */
  getState<S extends AnyState = AnyState>(channel: URI): S | undefined {
    return this.getChannel<S>(channel).state;
  }

  /** State, status and unanswered actions; the same object until something in it changes. */
  getChannel<S extends AnyState = AnyState>(channel: URI): ChannelView<S> {
    return (this.#find(channel)?.channel.view ?? NO_CHANNEL) as ChannelView<S>;
  }

  /** Calls `listener` after changes of the channel, gathered by the schedule; returns the undo. */
  watch(channel: URI, listener: () => void): () => void {
    const entry = this.#entry(channel);
    // The same function may watch twice, as two hooks of one component do.
    const watcher = () => listener();
    entry.channel.watchers.add(watcher);
    return () => {
      if (entry.channel.watchers.delete(watcher)) {
        this.#forgetLater(entry);
      }
    };
  }

  // --- changing -------------------------------------------------------------------------------

  /**
   * Sends an action, now or when there is a connection; returns its number. The host's refusal is
   * told to `onRefused`. The channel is held until the host has answered.
   */
  dispatch(channel: URI, action: AhpAction): number {
    return this.#dispatch(channel, action);
  }

  /** As `dispatch`; resolves when the host has taken the action. Rejects with `Refused` or `Withdrawn`. */
  dispatched(channel: URI, action: AhpAction): Promise<void> {
    return new Promise((resolve, reject) => this.#dispatch(channel, action, { resolve, reject }));
  }

  /** Takes an action back that was never sent; false when it is too late. */
  withdraw(clientSeq: number): boolean {
    for (const entry of this.#entries.values()) {
      const pending = entry.channel.pending.find(candidate => candidate.clientSeq === clientSeq);
      if (pending && !pending.sent) {
        entry.channel.take(clientSeq);
        this.#settled(entry);
        pending.settle?.reject(new Withdrawn('Taken back before it was sent'));
        return true;
      }
    }
    return false;
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

  /** Loads older turns of a chat into its state; at once when there are none, or it is loading already. */
  fetchTurns(chat: URI): Promise<void> {
    const loading = this.#loadingTurns.get(chat);
    const cursor = (this.#find(chat)?.channel.confirmed as ChatState | undefined)?.turnsNextCursor;
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
    for (const entry of this.#entries.values()) {
      this.#clock.clearTimeout(entry.grace);
      entry.channel.watchers.clear();
    }
  }

  // --- subscriptions --------------------------------------------------------------------------

  #find(uri: URI): Entry | undefined {
    const entry = this.#entries.get(uri);
    return entry ?? (isUri(uri) ? this.#entries.get(canonicalUri(uri)) : undefined);
  }

  #entry(uri: URI): Entry {
    const known = this.#find(uri);
    if (known) {
      return known;
    }
    const canonical = canonicalUri(uri);
    const entry: Entry = { channel: new Channel(canonical), holds: new Set() };
    this.#entries.set(canonical, entry);
    return entry;
  }

  /** True when what is there is as much as the hold wants. */
  #satisfies({ channel }: Entry, { turns = Infinity }: SubscribeOptions): boolean {
    const { turns: loaded, turnsNextCursor } = (channel.confirmed ?? {}) as Partial<ChatState>;
    return channel.status === 'live' && (turnsNextCursor == null || (loaded?.length ?? 0) >= turns);
  }

  #isWanted({ channel, holds }: Entry): boolean {
    return holds.size > 0 || channel.pending.length > 0;
  }

  /** Subscribes, anew for a channel that is live. Offline it is only noted; the next connect does it. */
  #ask(entry: Entry): void {
    const { channel } = entry;
    if (channel.status !== 'live') {
      channel.setStatus('loading');
      this.#touch(channel);
    }
    if (this.connection.getState().status !== 'open') {
      return;
    }
    const asking = (entry.asking = {});
    const counts = () => entry.asking === asking;
    this.connection.call('subscribe', this.#subscribeParams(entry), {
      ok: result => {
        if (counts()) {
          entry.asking = undefined;
          const { snapshot } = (result ?? {}) as { snapshot?: Snapshot };
          this.#replace(entry, snapshot);
          this.#flush([entry]);
        }
      },
      fail: error => {
        if (!counts()) {
          return;
        }
        entry.asking = undefined;
        if (isNotFound(error)) {
          this.#gone(entry, error);
        } else if (!(error instanceof ConnectionLost)) {
          channel.setStatus('failed', error);
          this.#touch(channel);
          channel.pending
            .filter(({ sent }) => !sent)
            .forEach(pending => this.#refuse(entry, pending, error.message));
        }
      }
    });
  }

  #subscribeParams(entry: Entry): Params {
    const { channel, holds } = entry;
    const latencies = [...holds].flatMap(hold => hold.maxLatencyMs ?? []);
    const params: Params = { channel: channel.uri };
    if (latencies.length > 0) {
      params.delivery = { maxLatencyMs: Math.min(...latencies) };
    }
    const wanted = wantedTurns(entry);
    if (channelKind(channel.uri) === 'chat' && Number.isFinite(wanted)) {
      // What a person had scrolled to stays loaded.
      const loaded = (channel.confirmed as ChatState | undefined)?.turns?.length ?? 0;
      params.view = { turns: Math.max(wanted, loaded) };
    }
    return params;
  }

  /** Takes the host's whole state, and settles what older connections carried and it tells of. */
  #replace(entry: Entry, snapshot: Snapshot | undefined): void {
    const { channel } = entry;
    channel.replace(snapshot?.state as AnyState | undefined, snapshot?.fromSeq ?? 0);
    this.#touch(channel);
    for (const pending of channel.pending) {
      if (!pending.sent || pending.sentOn === this.#generation) {
        continue;
      }
      const fate = channel.fate(pending);
      if (fate === 'taken') {
        channel.take(pending.clientSeq);
        this.#settled(entry);
        pending.settle?.resolve();
      } else if (fate === 'unknown') {
        this.#refuse(
          entry,
          pending,
          'The connection was lost before the host answered. Try again.'
        );
      }
    }
  }

  /** The host does not have the channel: what was meant for it will never be answered. */
  #gone(entry: Entry, error: Error): void {
    entry.asking = undefined;
    entry.channel.setStatus('missing', error);
    for (const pending of entry.channel.pending) {
      this.#refuse(entry, pending, error.message);
    }
    this.#touch(entry.channel);
  }

  #forgetLater(entry: Entry): void {
    if (!this.#isWanted(entry)) {
      this.#clock.clearTimeout(entry.grace);
      entry.grace = this.#clock.setTimeout(() => this.#forget(entry), this.#graceMs);
    }
  }

  #forget(entry: Entry): void {
    const { channel } = entry;
    if (this.#isWanted(entry)) {
      return;
    }
    if (channel.status === 'live' || channel.status === 'loading') {
      this.connection.notify('unsubscribe', { channel: channel.uri });
    }
    entry.asking = undefined;
    channel.setStatus('none');
    this.#touch(channel);
    if (channel.watchers.size === 0) {
      this.#entries.delete(channel.uri);
    }
  }

  // --- own actions ----------------------------------------------------------------------------

  #dispatch(uri: URI, action: AhpAction, settle?: Pending['settle']): number {
    const entry = this.#entry(uri);
    const { channel } = entry;
    const last = channel.pending.at(-1);
    if (action.type === 'chat/draftChanged' && last?.action.type === action.type && !last.sent) {
      // A draft that nobody saw is replaced, not told: offline typing must not pile up.
      channel.take(last.clientSeq);
      last.settle?.resolve();
    }
    const clientSeq = ++this.#clientSeq;
    channel.add({ clientSeq, action, sent: false, sentOn: 0, ...(settle ? { settle } : {}) });
    this.#touch(channel);
    this.#clock.clearTimeout(entry.grace);
    if (channel.status === 'live') {
      this.#flush([entry]);
    } else if (channel.status !== 'loading') {
      this.#ask(entry);
    }
    return clientSeq;
  }

  /**
   * Sends what this connection has not carried yet, oldest first. A channel's actions wait for its
   * state: before it, an echo could be missed, and the action would seem unanswered for ever.
   */
  #flush(entries: Iterable<Entry>): void {
    if (this.connection.getState().status !== 'open') {
      return;
    }
    const due = [...entries]
      .filter(({ channel }) => channel.status === 'live')
      .flatMap(entry => entry.channel.pending.map(pending => ({ entry, pending })))
      .filter(({ pending }) => pending.sentOn !== this.#generation)
      .sort((a, b) => a.pending.clientSeq - b.pending.clientSeq);
    for (const { entry, pending } of due) {
      const { channel } = entry;
      const { clientSeq, action } = pending;
      if (channel.isMoot(pending)) {
        channel.take(clientSeq);
        this.#settled(entry);
        pending.settle?.resolve();
        continue;
      }
      if (this.connection.notify('dispatchAction', { channel: channel.uri, clientSeq, action })) {
        channel.markSent(clientSeq, this.#generation);
        this.#touch(channel);
      }
    }
  }

  #refuse(entry: Entry, pending: Pending, reason: string): void {
    const { channel } = entry;
    const { clientSeq, action } = pending;
    channel.take(clientSeq);
    this.#settled(entry);
    pending.settle?.reject(new Refused(reason, channel.uri, action));
    for (const listener of [...this.#refusedListeners]) {
      listener({ channel: channel.uri, clientSeq, action, reason });
    }
  }

  #settled(entry: Entry): void {
    this.#touch(entry.channel);
    this.#forgetLater(entry);
  }

  // --- what the connection tells --------------------------------------------------------------

  readonly #mirror: Mirror = {
    channels: () =>
      [...this.#entries.values()]
        .filter(entry => entry.channel.status === 'live')
        .map(entry => entry.channel.uri),
    opened: outcome => this.#opened(outcome),
    action: envelope => this.#received(envelope),
    notification: (method, params) => this.#notified(method, params),
    lost: close => this.#lost(close)
  };

  #opened(outcome: Opened): void {
    this.#generation += 1;
    const entries = [...this.#entries.values()];
    if (outcome.type === 'replay') {
      outcome.actions.forEach(envelope => this.#received(envelope));
      outcome.missing.forEach(uri => this.#dropped(this.#find(uri)));
    } else {
      const snapshots =
        outcome.type === 'initialized' ? outcome.result.snapshots : outcome.snapshots;
      const given = new Map(snapshots.map(snapshot => [this.#find(snapshot.resource), snapshot]));
      for (const entry of entries) {
        const snapshot = given.get(entry);
        if (snapshot) {
          this.#replace(entry, snapshot);
        } else if (entry.channel.status === 'live') {
          if (outcome.type === 'snapshot') {
            this.#dropped(entry);
          } else {
            entry.channel.setStatus('loading');
            this.#touch(entry.channel);
          }
        }
      }
    }
    // Sessions first: a host may find their chats through them.
    const asked = entries.filter(
      entry =>
        this.#isWanted(entry) &&
        (entry.channel.status === 'loading' || entry.channel.status === 'failed')
    );
    const isSession = (entry: Entry) => channelKind(entry.channel.uri) === 'session';
    for (const entry of [...asked.filter(isSession), ...asked.filter(entry => !isSession(entry))]) {
      this.#ask(entry);
    }
    this.#flush(entries);
    void this.sessions.refresh();
  }

  #dropped(entry: Entry | undefined): void {
    if (entry) {
      this.#gone(entry, new Error(`The host no longer has ${entry.channel.uri}`));
    }
  }

  #received(envelope: ActionEnvelope): void {
    const entry = this.#find(envelope.channel);
    if (!entry) {
      return;
    }
    const { channel } = entry;
    const { origin, rejectionReason } = envelope;
    const own = origin?.clientId === this.connection.clientId;
    if (rejectionReason != null) {
      const pending =
        own && channel.pending.find(({ clientSeq }) => clientSeq === origin.clientSeq);
      if (pending) {
        this.#refuse(entry, pending, rejectionReason);
      }
      return;
    }
    const answered = own ? channel.take(origin.clientSeq) : undefined;
    try {
      channel.apply(envelope);
    } catch (error) {
      this.#complain(
        `${envelope.action.type} could not be applied to ${channel.uri}, its state is fetched anew. ` +
          String(asError(error).stack)
      );
      channel.setStatus('loading');
      this.#ask(entry);
    }
    this.#touch(channel);
    if (answered) {
      this.#settled(entry);
      answered.settle?.resolve();
    }
    if (envelope.action.type === 'session/chatRemoved') {
      this.#check(envelope.action.chat as URI);
    }
  }

  /** A chat that left its session may be gone, or live on in another one: the host knows. */
  #check(chat: URI): void {
    const entry = this.#find(chat);
    if (entry?.channel.status === 'live') {
      this.#ask(entry);
    }
  }

  #notified(method: string, params: Params): void {
    this.sessions.notified(method, params);
    if (method === 'root/sessionRemoved') {
      const session = this.#find(params.session as URI);
      const chats = (session?.channel.confirmed as SessionState | undefined)?.chats ?? [];
      this.#dropped(session);
      chats.forEach(chat => this.#dropped(this.#find(chat.resource)));
    }
    for (const listener of [...this.#notificationListeners]) {
      listener(method, params);
    }
  }

  #lost(close: Close): void {
    for (const entry of this.#entries.values()) {
      entry.asking = undefined;
    }
    if (close.code !== TOO_LARGE) {
      return;
    }
    // Sent again, the frame that was too large would end every connection: it goes no further.
    const sent = [...this.#entries.values()].flatMap(entry =>
      entry.channel.pending
        .filter(({ sentOn }) => sentOn === this.#generation)
        .map(pending => ({ entry, pending, size: JSON.stringify(pending.action).length }))
    );
    const largest = sent.reduce((a, b) => (b.size > a.size ? b : a), sent[0]!);
    if (largest) {
      const megabytes = (largest.size / 2 ** 20).toFixed(1);
      this.#refuse(largest.entry, largest.pending, `Too large for the host (${megabytes} MB)`);
    }
  }

  // --- telling the listeners ------------------------------------------------------------------

  #touch(channel: Channel): void {
    this.#touched.add(channel);
    this.#tellLater();
  }

  #tellLater(): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      this.#schedule(() => this.#tell());
    }
  }

  #tell(): void {
    this.#scheduled = false;
    const touched = this.#touched;
    this.#touched = new Set();
    for (const channel of touched) {
      channel.tell();
    }
    this.sessions.tell();
  }
}
