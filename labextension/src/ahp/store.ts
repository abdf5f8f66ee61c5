import type { AhpAction } from './actions';
import type { Schedule, Clock } from './clock';
import type { AhpConnection } from './connection';
import type { SessionCatalogue } from './catalogue';
import type * as T from './types';

/** An action of this client that the host has not answered yet. */
export interface PendingAction {
  readonly clientSeq: number;
  readonly action: AhpAction;
  /** False while it waits for a connection; only then can it be withdrawn. */
  readonly sent: boolean;
}

/** A channel as it looks now. The object is a new one exactly when something in it changed. */
export interface ChannelView<S = T.AnyState> {
  /**
   * `none`: nobody subscribed. `loading`: no state yet. `live`. `missing`: the host does not have it
   * (any more). `failed`: it could not be subscribed, see `error`; tried again at the next connect.
   */
  readonly status: 'none' | 'loading' | 'live' | 'missing' | 'failed';
  /** With this client's own unanswered actions applied. The last known one while offline or missing. */
  readonly state?: S;
  readonly error?: Error;
  /** In the order of dispatch; empty when the host has answered everything. */
  readonly pending: readonly PendingAction[];
}

export interface RefusedAction {
  readonly channel: T.URI;
  readonly clientSeq: number;
  readonly action: AhpAction;
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
  /** When listeners are told; at most once for each run. Default: animation frames. */
  readonly schedule?: Schedule;
  readonly clock?: Clock;
  /** How long a channel is kept after its last release. */
  readonly graceMs?: number;
}

/** The public surface of the store (class `AhpStore` implements it). */
export interface AhpStoreSurface {
  readonly connection: AhpConnection;
  /** The live list of sessions. */
  readonly sessions: SessionCatalogue;
  subscribe(channel: T.URI, options?: SubscribeOptions): Subscription;
  getState<S = T.AnyState>(channel: T.URI): S | undefined;
  getChannel<S = T.AnyState>(channel: T.URI): ChannelView<S>;
  watch(channel: T.URI, listener: () => void): () => void;
  dispatch(channel: T.URI, action: AhpAction): number;
  dispatched(channel: T.URI, action: AhpAction): Promise<void>;
  withdraw(clientSeq: number): boolean;
  onRefused(listener: (refused: RefusedAction) => void): () => void;
  onNotification(listener: (method: string, params: Record<string, unknown>) => void): () => void;
  createSession(params: T.CreateSessionParams): Promise<T.URI>;
  disposeSession(session: T.URI): Promise<void>;
  createChat(session: T.URI, params?: T.CreateChatParams): Promise<T.URI>;
  disposeChat(chat: T.URI): Promise<void>;
  fetchTurns(chat: T.URI, cursor?: string): Promise<void>;
  resolveSessionConfig(params: T.ResolveSessionConfigParams): Promise<T.Config<T.SessionConfigPropertySchema>>;
  completions(chat: T.URI, text: string, offset: number): Promise<readonly T.CompletionItem[]>;
  dispose(): void;
}
