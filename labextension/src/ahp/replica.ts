/**
 * All the channels that a client holds, kept like the host's over connections that come and go
 * (AHP 1.6 to 1.8): who holds which, what was sent on which connection, and what the host said.
 * `AhpStore` is its face.
 */

import type { AhpAction } from './actions';
import { Channel, NO_CHANNEL, type ChannelView, type Pending } from './channel';
import type { Clock } from './clock';
import type { AhpConnection, Opened } from './connection';
import { asError, ConnectionLost, isNotFound, Refused, Withdrawn } from './errors';
import type { Params } from './jsonrpc';
import type { Close } from './link';
import type { ActionEnvelope, AnyState, ChatState, SessionState, Snapshot, URI } from './types';
import { canonicalUri, channelKind, isUri } from './uris';

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

export interface ReplicaOptions {
  readonly clock: Clock;
  readonly graceMs: number;
  readonly complain: (message: string) => void;
  /** Something changed, and `tell` should be called before long. */
  readonly changed: () => void;
  readonly refused: (refused: RefusedAction) => void;
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

export class Replica {
  readonly #connection: AhpConnection;
  readonly #options: ReplicaOptions;
  readonly #clock: Clock;
  readonly #entries = new Map<URI, Entry>();
  #touched = new Set<Channel>();
  #clientSeq = 0;
  /** Which connection this is, counted from 1. */
  #generation = 0;

  constructor(connection: AhpConnection, options: ReplicaOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#clock = options.clock;
  }

  view(channel: URI): ChannelView {
    return this.#find(channel)?.channel.view ?? NO_CHANNEL;
  }

  /** What the host confirmed of a channel. */
  confirmed(channel: URI): AnyState | undefined {
    return this.#find(channel)?.channel.confirmed;
  }

  /** Tells the watchers of what changed since the last call. */
  tell(): void {
    const touched = this.#touched;
    this.#touched = new Set();
    for (const channel of touched) {
      channel.tell();
    }
  }

  /** Nobody watches or waits any more. */
  dispose(): void {
    for (const entry of this.#entries.values()) {
      this.#clock.clearTimeout(entry.grace);
      entry.channel.watchers.clear();
    }
  }

  subscribe(channel: URI, options: SubscribeOptions): Subscription {
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
    if (this.#connection.getState().status !== 'open') {
      return;
    }
    const asking = (entry.asking = {});
    const counts = () => entry.asking === asking;
    this.#connection.call('subscribe', this.#subscribeParams(entry), {
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
      entry.grace = this.#clock.setTimeout(() => this.#forget(entry), this.#options.graceMs);
    }
  }

  #forget(entry: Entry): void {
    const { channel } = entry;
    if (this.#isWanted(entry)) {
      return;
    }
    if (channel.status === 'live' || channel.status === 'loading') {
      this.#connection.notify('unsubscribe', { channel: channel.uri });
    }
    entry.asking = undefined;
    channel.setStatus('none');
    this.#touch(channel);
    if (channel.watchers.size === 0) {
      this.#entries.delete(channel.uri);
    }
  }

  // --- own actions ----------------------------------------------------------------------------

  /** See `AhpStore.dispatch`; `settle` is told the host's answer. */
  dispatch(uri: URI, action: AhpAction, settle?: Pending['settle']): number {
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
    if (this.#connection.getState().status !== 'open') {
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
      if (this.#connection.notify('dispatchAction', { channel: channel.uri, clientSeq, action })) {
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
    this.#options.refused({ channel: channel.uri, clientSeq, action, reason });
  }

  #settled(entry: Entry): void {
    this.#touch(entry.channel);
    this.#forgetLater(entry);
  }

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

  revise(clientSeq: number, action: AhpAction): boolean {
    for (const { channel } of this.#entries.values()) {
      if (channel.revise(clientSeq, action)) {
        this.#touch(channel);
        return true;
      }
    }
    return false;
  }

  // --- what the connection tells --------------------------------------------------------------

  /** The channels that a reconnect shall bring up to date; the root, held first, comes first. */
  channels(): readonly URI[] {
    return [...this.#entries.values()]
      .filter(entry => entry.channel.status === 'live')
      .map(entry => entry.channel.uri);
  }

  /** A handshake is done: takes in what was missed, then asks and sends what is still due. */
  opened(outcome: Opened): void {
    this.#generation += 1;
    const entries = [...this.#entries.values()];
    if (outcome.type === 'replay') {
      outcome.actions.forEach(envelope => this.action(envelope));
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
  }

  #dropped(entry: Entry | undefined): void {
    if (entry) {
      this.#gone(entry, new Error(`The host no longer has ${entry.channel.uri}`));
    }
  }

  action(envelope: ActionEnvelope): void {
    const entry = this.#find(envelope.channel);
    if (!entry) {
      return;
    }
    const { channel } = entry;
    const { origin, rejectionReason } = envelope;
    const own = origin?.clientId === this.#connection.clientId;
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
      this.#options.complain(
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

  /** A session was disposed of, and its chats with it. */
  sessionRemoved(uri: URI): void {
    const session = this.#find(uri);
    const chats = (session?.channel.confirmed as SessionState | undefined)?.chats ?? [];
    this.#dropped(session);
    chats.forEach(chat => this.#dropped(this.#find(chat.resource)));
  }

  lost(close: Close): void {
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

  #touch(channel: Channel): void {
    this.#touched.add(channel);
    this.#options.changed();
  }
}
