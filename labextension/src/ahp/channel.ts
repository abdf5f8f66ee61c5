/**
 * One channel as a client holds it (AHP 1.8): the state that the host confirmed, the client's own
 * actions that it has not answered, and what a person sees, which is the one with the others
 * applied on top. No I/O: the store says what arrives and what was sent.
 */

import type { AhpAction } from './actions';
import { saidAs, withUndo } from './beyond';
import { sameJson } from './json';
import { REDUCERS, type Reducer } from './reducers';
import type { ActionEnvelope, AnyState, ChatState, SessionState, URI } from './types';
import { channelKind } from './uris';

/** An action of this client that the host has not answered yet. */
export interface PendingAction {
  readonly clientSeq: number;
  readonly action: AhpAction;
  /** False while it waits for a connection; only then can it be withdrawn. */
  readonly sent: boolean;
}

/** A channel as it looks now. The object is a new one exactly when something in it changed. */
export interface ChannelView<S = AnyState> {
  /**
   * `none`: nobody subscribed. `loading`: the state is on its way; an older one may be there.
   * `live`: as the host last said, which may be a while ago without a connection. `missing`: the host
   * does not have it (any more). `failed`: it could not be subscribed, see `error`; tried again at
   * the next connect.
   */
  readonly status: 'none' | 'loading' | 'live' | 'missing' | 'failed';
  /** With this client's own unanswered actions applied. The last known one while offline or missing. */
  readonly state?: S;
  readonly error?: Error;
  /** In the order of dispatch; empty when the host has answered everything. */
  readonly pending: readonly PendingAction[];
}

/** A pending action with who waits for its answer. */
export interface Pending extends PendingAction {
  /** The connection that it was sent on last, counted from 1; 0 = none. */
  readonly sentOn: number;
  readonly settle?: { resolve(): void; reject(error: Error): void };
}

export const NO_CHANNEL: ChannelView<never> = { status: 'none', pending: [] };

/**
 * Applies an own action ahead of its echo, where that shows what will be. Three do not: what is
 * typed into a terminal comes back as output; a turn that is being stopped goes on until the host
 * has stopped it; a message sent while a turn runs would wipe that turn from the screen.
 */
function foreseen(reduce: Reducer<AnyState>, state: AnyState, action: AhpAction): AnyState {
  switch (action.type) {
    case 'terminal/input':
    case 'chat/turnCancelled':
      return state;
    case 'chat/turnStarted':
      return (state as ChatState).activeTurn != null || hasTurn(state, action.turnId)
        ? state
        : reduce(state, action);
    default:
      return reduce(state, action);
  }
}

function hasTurn(state: AnyState, turnId: string): boolean {
  const { activeTurn, turns } = state as ChatState;
  return activeTurn?.id === turnId || (turns ?? []).some(turn => turn.id === turnId);
}

export class Channel {
  readonly uri: URI;
  readonly watchers = new Set<() => void>();
  readonly #reduce: Reducer<AnyState>;
  #status: ChannelView['status'] = 'none';
  #error: Error | undefined;
  #confirmed: AnyState | undefined;
  /** Number of the last envelope that `#confirmed` holds. */
  #seq = -1;
  #pending: readonly Pending[] = [];
  #view: ChannelView = NO_CHANNEL;
  #stale = false;
  #told: ChannelView = NO_CHANNEL;

  constructor(uri: URI) {
    this.uri = uri;
    const kind = channelKind(uri);
    this.#reduce = kind ? (REDUCERS[kind] as Reducer<AnyState>) : state => state;
  }

  get status(): ChannelView['status'] {
    return this.#status;
  }

  /** The host's word alone, without what this client hopes for. */
  get confirmed(): AnyState | undefined {
    return this.#confirmed;
  }

  get pending(): readonly Pending[] {
    return this.#pending;
  }

  /** Computed when looked at: a burst of actions is rebased once. */
  get view(): ChannelView {
    if (this.#stale) {
      this.#stale = false;
      const state = this.#before(this.#pending.length);
      const { status, error, pending } = this.#view;
      if (
        state !== this.#view.state ||
        status !== this.#status ||
        error !== this.#error ||
        pending !== this.#pending
      ) {
        this.#view = {
          status: this.#status,
          pending: this.#pending,
          ...(state === undefined ? {} : { state }),
          ...(this.#error === undefined ? {} : { error: this.#error })
        };
      }
    }
    return this.#view;
  }

  /** Tells the watchers, if the view is another one than they were told of last. */
  tell(): void {
    if (this.view !== this.#told) {
      this.#told = this.#view;
      for (const watcher of [...this.watchers]) {
        watcher();
      }
    }
  }

  /** Moves on without a new state; what was known stays to be read, except when nobody wants it. */
  setStatus(status: Exclude<ChannelView['status'], 'live'>, error?: Error): void {
    this.#status = status;
    this.#error = error;
    if (status === 'none') {
      this.#confirmed = undefined;
      this.#seq = -1;
    }
    this.#stale = true;
  }

  /** The host's whole state, as of `fromSeq`. Absent for a channel that has none. */
  replace(state: AnyState | undefined, fromSeq: number): void {
    this.#status = 'live';
    this.#error = undefined;
    this.#confirmed = state;
    this.#seq = fromSeq;
    this.#stale = true;
  }

  /** Applies a host's envelope; one that the state already holds changes nothing. */
  apply({ serverSeq, action }: ActionEnvelope): void {
    if (this.#status === 'live' && this.#confirmed !== undefined && serverSeq > this.#seq) {
      const before = this.#confirmed;
      this.#confirmed = withUndo(this.#reduce(before, action as AhpAction), action as AhpAction);
      this.#seq = serverSeq;
      this.#stale = true;
    }
  }

  add(pending: Pending): void {
    this.#setPending([...this.#pending, pending]);
  }

  /** Takes a pending action out, answered, refused or withdrawn. */
  take(clientSeq: number): Pending | undefined {
    const taken = this.#pending.find(pending => pending.clientSeq === clientSeq);
    if (taken) {
      this.#setPending(this.#pending.filter(pending => pending !== taken));
    }
    return taken;
  }

  /** Puts another action in the place of one that was never sent; false when it was, or is none. */
  revise(clientSeq: number, action: AhpAction): boolean {
    const old = this.#pending.find(pending => pending.clientSeq === clientSeq);
    if (!old || old.sent) {
      return false;
    }
    this.#setPending(
      this.#pending.map(pending => (pending === old ? { ...old, action } : pending))
    );
    return true;
  }

  markSent(clientSeq: number, connection: number): void {
    this.#setPending(
      this.#pending.map(pending =>
        pending.clientSeq === clientSeq ? { ...pending, sent: true, sentOn: connection } : pending
      )
    );
  }

  /**
   * What a fresh state says of an action that an older connection carried. A host answers most of
   * them again when they come again, but not the ones that start a turn.
   */
  fate({ action }: Pending): 'taken' | 'unknown' | 'send again' {
    const state = this.#confirmed as ChatState | undefined;
    switch (action.type) {
      case 'chat/turnStarted':
        return state && hasTurn(state, action.turnId) ? 'taken' : 'send again';
      case 'chat/turnResume':
        return state?.activeTurn?.id === action.turnId ? 'taken' : 'unknown';
      case 'chat/pendingMessageSet': {
        // it may have been taken, and have become a turn since: sent again, it would be said twice
        const said = state && saidAs(state, action.id);
        return !said ? 'send again' : said.text === action.message.text ? 'taken' : 'unknown';
      }
      default:
        return 'send again';
    }
  }

  /** True for a client announced as it already is: a host says nothing to that. */
  isMoot(pending: Pending): boolean {
    const { action } = pending;
    if (action.type !== 'session/activeClientSet') {
      return false;
    }
    const before = this.#before(this.#pending.indexOf(pending)) as SessionState | undefined;
    const { clientId } = action.activeClient;
    const known = before?.activeClients?.find(client => client.clientId === clientId);
    return known !== undefined && sameJson(known, action.activeClient);
  }

  #setPending(pending: readonly Pending[]): void {
    this.#pending = pending;
    this.#stale = true;
  }

  /** The state as it looks before the pending action at that place. */
  #before(place: number): AnyState | undefined {
    return this.#confirmed === undefined
      ? undefined
      : this.#pending
          .slice(0, place)
          .reduce((state, { action }) => foreseen(this.#reduce, state, action), this.#confirmed);
  }
}
