/**
 * Random histories: two clients and a host act, messages arrive late, connections break, replays
 * run out. However it goes, both end with the host's state, and nothing is carried out twice.
 */

import { expect, it } from 'vitest';
import { AhpConnection, AhpStore, Refused } from '..';
import type { AhpAction, ChatState, Message } from '..';
import { FakeSocket, ticks, World } from './world';

const CHAT = 'ahp-chat:/c1';
const AT = '2026-03-01T10:00:00.000Z';
const message = (text: string): Message => ({ text, origin: { kind: 'user' } });

/** mulberry32: small, good enough, and the same everywhere. */
function random(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

class History {
  readonly world = new World();
  readonly random: () => number;
  readonly otherSockets: FakeSocket[] = [];
  readonly other: AhpStore;
  forgot = false;
  answered = 0;
  dispatched = 0;
  #names = 0;

  constructor(seed: number) {
    this.random = random(seed);
    const { world } = this;
    const connection = new AhpConnection({
      open: () => {
        const socket = new FakeSocket(world.host);
        this.otherSockets.push(socket);
        return socket;
      },
      clientId: 'you',
      clock: world.clock
    });
    this.other = new AhpStore(connection, { clock: world.clock, schedule: run => run() });
    const { host } = world;
    host.states.set(CHAT, {
      resource: CHAT,
      title: '',
      status: 1,
      modifiedAt: AT,
      turns: []
    } as ChatState);
    host.refuses = (_, action) => {
      const state = host.states.get(CHAT) as ChatState;
      if (action.type === 'chat/turnStarted') {
        const known = state.turns.some(({ id }) => id === action.turnId);
        return state.activeTurn || known ? 'A turn is running' : undefined;
      }
      return this.random() < 0.15 ? 'No' : undefined;
    };
  }

  get state(): ChatState {
    return this.world.host.states.get(CHAT) as ChatState;
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!;
  }

  name(): string {
    return `n${++this.#names}`;
  }

  clientAction(): AhpAction {
    const queued = this.state.queuedMessages?.map(({ id }) => id) ?? [];
    const turns = this.state.turns.map(({ id }) => id);
    return this.pick<() => AhpAction>([
      () => ({ type: 'chat/draftChanged', draft: message(this.name()) }),
      () => ({ type: 'chat/isReadChanged', isRead: this.random() < 0.5 }),
      () => ({
        type: 'chat/pendingMessageSet',
        kind: 'queued',
        id: this.name(),
        message: message('q')
      }),
      () => ({
        type: 'chat/pendingMessageRemoved',
        kind: 'queued',
        id: this.pick([...queued, 'none'])
      }),
      () => ({ type: 'chat/queuedMessagesReordered', order: [...queued].reverse() }),
      () => ({
        type: 'chat/turnStarted',
        turnId: this.name(),
        startedAt: AT,
        message: message('t')
      }),
      () => ({
        type: 'chat/turnCancelled',
        turnId: this.state.activeTurn?.id ?? 'none',
        duration: 1
      }),
      () => ({ type: 'chat/truncated', turnId: this.pick([...turns, 'none']) })
    ])();
  }

  hostAction(): AhpAction {
    const { activeTurn } = this.state;
    if (!activeTurn) {
      const [head] = this.state.queuedMessages ?? [];
      return {
        type: 'chat/turnStarted',
        turnId: this.name(),
        startedAt: AT,
        message: head?.message ?? message('h'),
        ...(head ? { queuedMessageId: head.id } : {})
      };
    }
    const turnId = activeTurn.id;
    const part = activeTurn.responseParts.at(-1);
    if (part?.kind !== 'markdown' || this.random() < 0.1) {
      return {
        type: 'chat/responsePart',
        turnId,
        part: { kind: 'markdown', id: this.name(), content: '' }
      };
    }
    return this.random() < 0.15
      ? { type: 'chat/turnComplete', turnId, duration: 3 }
      : { type: 'chat/delta', turnId, partId: part.id, content: this.name() };
  }

  send(): void {
    const store = this.random() < 0.7 ? this.world.store : this.other;
    this.dispatched += 1;
    store.dispatched(CHAT, this.clientAction()).then(
      () => (this.answered += 1),
      error => {
        expect(error).toBeInstanceOf(Refused);
        this.answered += 1;
      }
    );
  }

  async step(): Promise<void> {
    const { world } = this;
    const sockets = [world.socket, this.otherSockets.at(-1)!];
    const chance = this.random();
    if (chance < 0.3) {
      this.send();
    } else if (chance < 0.55) {
      world.host.emit(CHAT, this.hostAction());
    } else if (chance < 0.9) {
      const socket = this.pick(sockets);
      if (socket.readyState === 0) {
        socket.accept();
      }
      await socket.pump(Math.floor(this.random() * 4), Math.floor(this.random() * 6));
    } else if (chance < 0.95) {
      const socket = this.pick(sockets);
      if (socket.readyState === 1) {
        socket.drop();
      }
    } else if (chance < 0.97) {
      world.host.floor = world.host.seq;
    } else if (chance < 0.98) {
      // The host forgets who its clients are, as after a restart, with what it had taken of them.
      world.host.clients.clear();
      this.forgot = true;
      for (const socket of [...world.host.sockets]) {
        socket.drop();
      }
    } else {
      world.clock.advance(5_000);
    }
    await ticks();
  }

  /** All comes back, all arrives. */
  async end(): Promise<void> {
    for (let i = 0; i < 60; i++) {
      this.world.connection.retryNow();
      this.other.connection.retryNow();
      for (const socket of [...this.world.sockets, ...this.otherSockets]) {
        if (socket.readyState === 0 && !socket.closedWith) {
          socket.accept();
        }
        if (socket.readyState === 1) {
          await socket.pump();
        }
      }
      await ticks();
    }
  }
}

const SEEDS = Array.from({ length: 150 }, (_, index) => index + 1);

it.each(SEEDS)('history %i ends in the state of the host', async seed => {
  const history = new History(seed);
  const { world, other } = history;
  for (const store of [world.store, other]) {
    store.subscribe(CHAT);
    store.connection.start();
  }
  for (let i = 0; i < 120; i++) {
    await history.step();
    for (const store of [world.store, other]) {
      store.getState(CHAT); // A view looks at any time.
    }
  }
  await history.end();
  for (const store of [world.store, other]) {
    expect(store.getChannel(CHAT)).toMatchObject({ status: 'live', pending: [] });
    expect(store.getState(CHAT)).toEqual(history.state);
  }
  expect(history.answered).toBe(history.dispatched);
  if (!history.forgot) {
    expect(new Set(world.host.applied).size).toBe(world.host.applied.length);
  }
  expect(world.complaints).toEqual([]);
});
