import { describe, expect, it, vi } from 'vitest';
import { ConnectionLost, Refused, ROOT, Withdrawn } from '..';
import type { AhpAction, ChatState, Message, ResponsePart, SessionState, Turn } from '..';
import { rpcError, ticks, World } from './world';

const CHAT = 'ahp-chat:/c1';
const OTHER = 'ahp-chat:/c2';
const SESSION = 'ahp-session:/s1';
const TERMINAL = 'ahp-terminal:/t1';
const AT = '2026-03-01T10:00:00.000Z';

const message = (text: string): Message => ({ text, origin: { kind: 'user' } });

const start = (turnId: string, text = 'Hi'): AhpAction => ({
  type: 'chat/turnStarted',
  turnId,
  startedAt: AT,
  message: message(text)
});

const ended = (id: string): Turn => ({
  id,
  startedAt: AT,
  duration: 1,
  message: message(id),
  responseParts: [],
  state: 'complete'
});

const chat = (changes: Partial<ChatState> = {}): ChatState => ({
  resource: CHAT,
  title: 'Chat',
  status: 1,
  modifiedAt: AT,
  turns: [],
  ...changes
});

const session: SessionState = {
  provider: 'echo',
  title: 'Session',
  status: 1,
  lifecycle: 'ready',
  activeClients: [],
  chats: [{ resource: CHAT, title: 'Chat', status: 1, modifiedAt: AT }],
  defaultChat: CHAT
};

async function open(state: ChatState = chat()): Promise<World> {
  const world = new World();
  world.host.states.set(CHAT, state);
  world.host.states.set(SESSION, session);
  world.store.subscribe(CHAT);
  await world.start();
  world.frame();
  return world;
}

const stateOf = (world: World) => world.store.getState<ChatState>(CHAT)!;
const dispatches = (world: World) =>
  world.sockets.flatMap(socket => socket.requests('dispatchAction')).map(({ params }) => params);

describe('subscribe', () => {
  it('loads a channel, and keeps it up to date', async () => {
    const world = await open();
    expect(world.store.getChannel(CHAT)).toMatchObject({ status: 'live', pending: [] });
    world.host.emit(CHAT, { type: 'chat/activityChanged', activity: 'thinking' });
    await world.settle();
    expect(stateOf(world).activity).toBe('thinking');
  });

  it('may come before the connection, and passes on what the holder wants', async () => {
    const world = new World();
    world.host.states.set(CHAT, chat());
    world.store.subscribe(CHAT, { turns: 30, maxLatencyMs: 50 });
    expect(world.store.getChannel(CHAT)).toEqual({ status: 'loading', pending: [] });
    await world.start();
    expect(world.socket.requests('subscribe')[0]?.params).toEqual({
      channel: CHAT,
      view: { turns: 30 },
      delivery: { maxLatencyMs: 50 }
    });
  });

  it('asks once for any number of holders, and lets go a while after the last', async () => {
    const world = new World();
    world.host.states.set(CHAT, chat());
    await world.start();
    const holds = [world.store.subscribe(CHAT), world.store.subscribe(CHAT)];
    await world.settle();
    expect(world.socket.requests('subscribe')).toHaveLength(1);
    holds[0]!.release();
    holds[0]!.release();
    world.clock.advance(9_000);
    expect(world.socket.requests('unsubscribe')).toHaveLength(0);
    holds[1]!.release();
    world.clock.advance(4_999);
    const again = world.store.subscribe(CHAT);
    world.clock.advance(5_000);
    expect(world.socket.requests('unsubscribe')).toHaveLength(0);
    expect(world.socket.requests('subscribe')).toHaveLength(1);
    again.release();
    world.clock.advance(5_000);
    expect(world.socket.requests('unsubscribe')).toMatchObject([{ params: { channel: CHAT } }]);
    expect(world.store.getChannel(CHAT)).toEqual({ status: 'none', pending: [] });
  });

  it('asks anew for a holder who wants more of a chat than is there', async () => {
    const world = new World();
    world.host.states.set(CHAT, chat({ turns: [ended('a')], turnsNextCursor: 'x' }));
    await world.start();
    world.store.subscribe(CHAT, { turns: 1 });
    await world.settle();
    world.store.subscribe(CHAT, { turns: 1 });
    expect(world.socket.requests('subscribe')).toHaveLength(1);
    world.store.subscribe(CHAT, { turns: 40 });
    expect(world.socket.requests('subscribe')[1]?.params.view).toEqual({ turns: 40 });
    expect(world.store.getChannel(CHAT).status).toBe('live');
  });

  it('tells what is missing, and tries it again for the next holder', async () => {
    const world = await new World().start();
    world.store.subscribe(CHAT);
    await world.settle();
    expect(world.store.getChannel(CHAT)).toMatchObject({
      status: 'missing',
      error: { message: `Resource not found: ${CHAT}` }
    });
    world.host.states.set(CHAT, chat());
    world.store.subscribe(CHAT);
    await world.settle();
    expect(world.store.getChannel(CHAT).status).toBe('live');
  });

  it('tells what failed, and tries it again at the next connect', async () => {
    const world = new World();
    world.host.states.set(CHAT, chat());
    world.host.answers.subscribe = () => rpcError(-32603, 'The disk is full');
    world.store.subscribe(CHAT);
    await world.start();
    expect(world.store.getChannel(CHAT)).toMatchObject({
      status: 'failed',
      error: { message: 'The disk is full' }
    });
    delete world.host.answers.subscribe;
    await world.reconnect();
    expect(world.store.getChannel(CHAT).status).toBe('live');
  });

  it('knows a channel in any spelling of its URI', async () => {
    const world = await open();
    expect(world.store.getState('ahp-chat:///c1')).toBe(stateOf(world));
    expect(world.store.getState('not a uri')).toBeUndefined();
    expect(() => world.store.subscribe('not a uri')).toThrow(TypeError);
  });
});

describe('identity', () => {
  it('of turns and parts that do not change survives a delta', async () => {
    const parts: ResponsePart[] = [
      { kind: 'markdown', id: 'p1', content: 'one' },
      { kind: 'reasoning', id: 'p2', content: 'two' }
    ];
    const world = await open(
      chat({
        turns: [ended('a'), ended('b')],
        activeTurn: { id: 't', startedAt: AT, message: message('x'), responseParts: parts }
      })
    );
    const before = stateOf(world);
    world.host.emit(CHAT, { type: 'chat/reasoning', turnId: 't', partId: 'p2', content: '!' });
    await world.settle();
    const after = stateOf(world);
    expect(after.activeTurn?.responseParts[1]).toMatchObject({ content: 'two!' });
    expect(after).not.toBe(before);
    expect(after.turns).toBe(before.turns);
    expect(after.activeTurn?.message).toBe(before.activeTurn?.message);
    expect(after.activeTurn?.responseParts[0]).toBe(before.activeTurn?.responseParts[0]);
  });

  it('holds for the whole view while nothing happens', async () => {
    const world = await open();
    const view = world.store.getChannel(CHAT);
    world.host.emit(CHAT, { type: 'chat/isReadChanged', isRead: false });
    world.host.emit(ROOT, { type: 'root/activeSessionsChanged', activeSessions: 2 });
    await world.settle();
    expect(world.store.getChannel(CHAT)).toBe(view);
    expect(world.store.getChannel(OTHER)).toBe(world.store.getChannel(TERMINAL));
  });

  it('a delta does not look at the transcript', async () => {
    const untouchable = new Proxy([ended('a')], {
      get() {
        throw new Error('The transcript was read');
      }
    });
    const { REDUCERS } = await import('..');
    const state = chat({
      turns: untouchable,
      activeTurn: {
        id: 't',
        startedAt: AT,
        message: message('x'),
        responseParts: [{ kind: 'markdown', id: 'p', content: '' }]
      }
    });
    const next = REDUCERS.chat(state, {
      type: 'chat/delta',
      turnId: 't',
      partId: 'p',
      content: 'y'
    });
    expect(next.activeTurn?.responseParts).toEqual([{ kind: 'markdown', id: 'p', content: 'y' }]);
  });
});

describe('listeners', () => {
  it('are told once a frame, and only of their channel', async () => {
    const world = await open(
      chat({
        activeTurn: {
          id: 't',
          startedAt: AT,
          message: message('x'),
          responseParts: [{ kind: 'markdown', id: 'p', content: '' }]
        }
      })
    );
    const onChat = vi.fn();
    const onRoot = vi.fn();
    world.store.watch(CHAT, onChat);
    world.store.watch(ROOT, onRoot);
    for (let i = 0; i < 100; i++) {
      world.host.emit(CHAT, { type: 'chat/delta', turnId: 't', partId: 'p', content: 'x' });
    }
    await world.settle();
    expect(onChat).not.toHaveBeenCalled();
    world.frame();
    expect(onChat).toHaveBeenCalledTimes(1);
    expect(onRoot).not.toHaveBeenCalled();
    expect(stateOf(world).activeTurn?.responseParts[0]).toMatchObject({ content: 'x'.repeat(100) });
    world.frame();
    expect(onChat).toHaveBeenCalledTimes(1);
  });

  it('are not told of what comes to nothing, nor after they left', async () => {
    const world = await open();
    const listener = vi.fn();
    const undo = world.store.watch(CHAT, listener);
    world.host.emit(CHAT, { type: 'chat/activityChanged', activity: 'a' });
    world.host.emit(CHAT, { type: 'chat/activityChanged' });
    world.host.emit(CHAT, { type: 'chat/isReadChanged', isRead: false });
    await world.settle();
    world.frame();
    // The state is equal but another object: that is news; a no-op alone is none.
    listener.mockClear();
    world.host.emit(CHAT, { type: 'chat/isReadChanged', isRead: false });
    await world.settle();
    world.frame();
    expect(listener).not.toHaveBeenCalled();
    undo();
    world.host.emit(CHAT, { type: 'chat/activityChanged', activity: 'b' });
    await world.settle();
    world.frame();
    expect(listener).not.toHaveBeenCalled();
  });

  it('may watch before anybody holds, and after', async () => {
    const world = await new World().start();
    const listener = vi.fn();
    world.store.watch(CHAT, listener);
    world.host.states.set(CHAT, chat());
    const hold = world.store.subscribe(CHAT);
    await world.settle();
    world.frame();
    expect(listener).toHaveBeenCalledTimes(1);
    hold.release();
    world.clock.advance(5_000);
    world.frame();
    expect(listener).toHaveBeenCalledTimes(2);
    expect(world.store.getChannel(CHAT).status).toBe('none');
  });
});

describe('dispatch', () => {
  it('shows at once, is sent, and is retired by its echo', async () => {
    const world = await open();
    const clientSeq = world.store.dispatch(CHAT, { type: 'chat/isReadChanged', isRead: true });
    expect(stateOf(world).status & 32).toBe(32);
    expect(world.store.getChannel(CHAT).pending).toMatchObject([{ clientSeq, sent: true }]);
    await world.settle();
    expect(dispatches(world)).toEqual([
      { channel: CHAT, clientSeq, action: { type: 'chat/isReadChanged', isRead: true } }
    ]);
    expect(stateOf(world)).toEqual(world.host.states.get(CHAT));
    expect(world.store.getChannel(CHAT).pending).toEqual([]);
  });

  it('T7: a refusal takes it back and says why', async () => {
    const world = await open();
    world.host.refuses = () => 'This chat is read-only';
    const refused = vi.fn();
    world.store.onRefused(refused);
    const action: AhpAction = { type: 'chat/draftChanged', draft: message('x') };
    const answer = world.store.dispatched(CHAT, action);
    answer.catch(() => undefined);
    expect(stateOf(world).draft?.text).toBe('x');
    await world.settle();
    await expect(answer).rejects.toThrow(Refused);
    await expect(answer).rejects.toMatchObject({
      reason: 'This chat is read-only',
      channel: CHAT,
      action
    });
    expect(refused).toHaveBeenCalledExactlyOnceWith({
      channel: CHAT,
      clientSeq: 1,
      action,
      reason: 'This chat is read-only'
    });
    expect(stateOf(world)).toEqual(chat());
  });

  it('resolves when the host has taken it', async () => {
    const world = await open();
    let taken = false;
    const answer = world.store.dispatched(CHAT, start('t1')).then(() => (taken = true));
    await ticks();
    expect(taken).toBe(false);
    await world.settle();
    await answer;
    expect(stateOf(world).activeTurn?.id).toBe('t1');
  });

  it('takes the echo for what the host made of the action', async () => {
    const world = await open();
    const seq = world.store.dispatch(CHAT, start('t1', 'mine'));
    world.socket.up = [];
    world.host.clients.get('me')!.set(seq, {} as never);
    world.host.emit(CHAT, start('t1', 'settled'), { clientId: 'me', clientSeq: seq });
    await world.settle();
    expect(stateOf(world).activeTurn?.message.text).toBe('settled');
  });

  it('is rebased on what others do meanwhile', async () => {
    const world = await open();
    world.store.dispatch(CHAT, {
      type: 'chat/pendingMessageSet',
      kind: 'queued',
      id: 'mine',
      message: message('mine')
    });
    world.host.emit(CHAT, {
      type: 'chat/pendingMessageSet',
      kind: 'queued',
      id: 'theirs',
      message: message('theirs')
    });
    await world.socket.pump(0);
    const ids = () => stateOf(world).queuedMessages?.map(({ id }) => id);
    expect(ids()).toEqual(['theirs', 'mine']);
    await world.settle();
    expect(ids()).toEqual(['theirs', 'mine']);
  });

  it("does not take another client's echo with the same number for its own", async () => {
    const world = await open();
    const clientSeq = world.store.dispatch(CHAT, { type: 'chat/isReadChanged', isRead: true });
    world.host.emit(
      CHAT,
      { type: 'chat/activityChanged', activity: 'x' },
      { clientId: 'other', clientSeq }
    );
    await world.socket.pump(0);
    expect(world.store.getChannel(CHAT).pending).toHaveLength(1);
  });

  it('does not foresee what would show an untruth', async () => {
    const running = { id: 't', startedAt: AT, message: message('x'), responseParts: [] };
    const world = await open(chat({ status: 8, activeTurn: running }));
    world.host.states.set(TERMINAL, {
      title: 'sh',
      content: [],
      lifecycle: { status: 'running' },
      claim: { kind: 'client', clientId: 'me' }
    });
    world.store.subscribe(TERMINAL);
    await world.settle();
    const before = stateOf(world);
    const terminal = world.store.getState(TERMINAL);
    world.store.dispatch(CHAT, start('second'));
    world.store.dispatch(CHAT, { type: 'chat/turnCancelled', turnId: 't', duration: 5 });
    world.store.dispatch(TERMINAL, { type: 'terminal/input', data: 'ls\n' });
    expect(stateOf(world)).toBe(before);
    expect(world.store.getState(TERMINAL)).toBe(terminal);
    expect(world.store.getChannel(CHAT).pending).toHaveLength(2);
  });

  it('to a channel that nobody holds holds it until the answer', async () => {
    const world = await open();
    world.host.states.set(OTHER, chat({ resource: OTHER }));
    const answer = world.store.dispatched(OTHER, { type: 'chat/isReadChanged', isRead: true });
    expect(world.socket.requests('subscribe').at(-1)?.params).toEqual({
      channel: OTHER,
      view: { turns: 1 }
    });
    expect(dispatches(world)).toHaveLength(0);
    await world.settle();
    await answer;
    world.clock.advance(5_000);
    expect(world.socket.requests('unsubscribe')).toMatchObject([{ params: { channel: OTHER } }]);
  });

  it('to a channel that the host does not have is refused', async () => {
    const world = await open();
    const answer = world.store.dispatched(OTHER, { type: 'chat/isReadChanged', isRead: true });
    answer.catch(() => undefined);
    await world.settle();
    await expect(answer).rejects.toThrow(`Resource not found: ${OTHER}`);
  });

  it('keeps a channel whose answer is awaited, released or not', async () => {
    const world = await new World().start();
    world.host.states.set(CHAT, chat());
    const hold = world.store.subscribe(CHAT);
    await world.settle();
    world.store.dispatch(CHAT, { type: 'chat/isReadChanged', isRead: true });
    hold.release();
    world.clock.advance(8_000);
    expect(world.socket.requests('unsubscribe')).toHaveLength(0);
    await world.settle();
    world.clock.advance(5_000);
    expect(world.socket.requests('unsubscribe')).toHaveLength(1);
  });

  it('does not announce a client as it already is: no host would answer', async () => {
    const world = await open();
    world.store.subscribe(SESSION);
    await world.settle();
    const announce = (name: string): AhpAction => ({
      type: 'session/activeClientSet',
      activeClient: { clientId: 'me', displayName: name, tools: [] }
    });
    const answers = [announce('Lab'), announce('Lab'), announce('Else')].map(action =>
      world.store.dispatched(SESSION, action)
    );
    expect(dispatches(world)).toHaveLength(2);
    await world.settle();
    await Promise.all(answers);
    await world.store.dispatched(SESSION, announce('Else'));
    expect(dispatches(world)).toHaveLength(2);
  });
});

describe('offline', () => {
  const read = (isRead: boolean): AhpAction => ({ type: 'chat/isReadChanged', isRead });

  it('keeps actions, shows them, and sends them in order when it is back', async () => {
    const world = await open();
    world.store.subscribe(SESSION);
    await world.settle();
    world.socket.drop();
    world.store.dispatch(CHAT, read(true));
    world.store.dispatch(SESSION, { type: 'session/titleChanged', title: 'New' });
    world.store.dispatch(CHAT, start('t1'));
    expect(stateOf(world).activeTurn?.id).toBe('t1');
    expect(world.store.getChannel(CHAT).pending.map(({ sent }) => sent)).toEqual([false, false]);
    world.connection.retryNow();
    await world.settle();
    expect(dispatches(world).map(({ clientSeq }) => clientSeq)).toEqual([1, 2, 3]);
    expect(stateOf(world)).toEqual(world.host.states.get(CHAT));
  });

  it('lets one be withdrawn that was not sent, and only then', async () => {
    const world = await open();
    const sent = world.store.dispatch(CHAT, read(true));
    expect(world.store.withdraw(sent)).toBe(false);
    await world.settle();
    world.socket.drop();
    const answer = world.store.dispatched(CHAT, start('t1'));
    answer.catch(() => undefined);
    const { clientSeq } = world.store.getChannel(CHAT).pending[0]!;
    expect(world.store.withdraw(clientSeq)).toBe(true);
    await expect(answer).rejects.toThrow(Withdrawn);
    expect(stateOf(world).activeTurn).toBeUndefined();
    expect(world.store.withdraw(clientSeq)).toBe(false);
    world.connection.retryNow();
    await world.settle();
    expect(dispatches(world)).toHaveLength(1);
  });

  it('keeps the last draft only', async () => {
    const world = await open();
    world.socket.drop();
    const answers = ['a', 'ab', 'abc'].map(text =>
      world.store.dispatched(CHAT, { type: 'chat/draftChanged', draft: message(text) })
    );
    world.connection.retryNow();
    await world.settle();
    await Promise.all(answers);
    expect(dispatches(world)).toHaveLength(1);
    expect(world.host.states.get(CHAT)).toMatchObject({ draft: { text: 'abc' } });
  });

  it('before the first connection is no different', async () => {
    const world = new World();
    world.host.states.set(CHAT, chat());
    const answer = world.store.dispatched(CHAT, start('t1'));
    await world.start();
    await answer;
    expect(world.host.states.get(CHAT)).toMatchObject({ activeTurn: { id: 't1' } });
  });
});

describe('reconnect', () => {
  it('sends what was not answered once more, under its number, and the host does it once', async () => {
    const world = await open();
    world.store.dispatch(CHAT, { type: 'chat/isReadChanged', isRead: true });
    world.socket.up = []; // never arrived
    await world.reconnect();
    expect(dispatches(world).map(({ clientSeq }) => clientSeq)).toEqual([1, 1]);
    expect(world.host.applied).toEqual(['me:1']);
    expect(world.store.getChannel(CHAT).pending).toEqual([]);
  });

  it('does not send again what the replay shows to have arrived', async () => {
    const world = await open();
    const answer = world.store.dispatched(CHAT, start('t1'));
    await world.socket.pump(Infinity, 0); // carried out, the echo is lost
    await world.reconnect();
    await answer;
    expect(dispatches(world)).toHaveLength(1);
    expect(stateOf(world).activeTurn?.id).toBe('t1');
  });

  it('by snapshot replaces the states, and knows a started turn again', async () => {
    const world = await open();
    const turn = world.store.dispatched(CHAT, start('t1'));
    const draft = world.store.dispatched(CHAT, { type: 'chat/draftChanged', draft: message('x') });
    await world.socket.pump(Infinity, 0);
    world.host.floor = world.host.seq;
    await world.reconnect();
    await turn;
    await draft;
    // The turn is not sent again; the draft is, and was done once.
    expect(dispatches(world).map(({ clientSeq }) => clientSeq)).toEqual([1, 2, 2]);
    expect(world.host.applied).toEqual(['me:1', 'me:2']);
    expect(stateOf(world)).toEqual(world.host.states.get(CHAT));
  });

  it('by snapshot gives a lost resume back to the person', async () => {
    const failed: Turn = {
      ...ended('t'),
      state: 'error',
      responseParts: [{ kind: 'error', error: { errorType: 'x', message: 'y' }, resumable: true }]
    };
    const world = await open(chat({ status: 2, turns: [failed] }));
    const answer = world.store.dispatched(CHAT, { type: 'chat/turnResume', turnId: 't' });
    answer.catch(() => undefined);
    world.socket.up = [];
    world.host.floor = world.host.seq + 1;
    await world.reconnect();
    await expect(answer).rejects.toThrow('Try again');
    expect(dispatches(world)).toHaveLength(1);
    expect(stateOf(world).activeTurn).toBeUndefined();
  });

  it.each(['replay', 'snapshot'])(
    'by %s drops what is gone, with what was meant for it',
    async kind => {
      const world = await open();
      world.socket.drop();
      const answer = world.store.dispatched(CHAT, start('t1'));
      answer.catch(() => undefined);
      world.host.states.delete(CHAT);
      world.host.floor = kind === 'snapshot' ? world.host.seq + 1 : 0;
      world.connection.retryNow();
      await world.settle();
      await expect(answer).rejects.toThrow(Refused);
      const view = world.store.getChannel<ChatState>(CHAT);
      expect(view.status).toBe('missing');
      expect(view.state?.title).toBe('Chat');
      await world.reconnect();
      expect(world.socket.sent[0]?.params.subscriptions).toEqual([ROOT]);
    }
  );

  it('by a new beginning subscribes sessions first, keeps what was scrolled to, and sends the rest', async () => {
    const world = new World();
    const turns = Array.from({ length: 40 }, (_, index) => ended(`t${index}`));
    world.host.states.set(CHAT, chat({ turns }));
    world.host.states.set(SESSION, session);
    world.store.subscribe(CHAT, { turns: 10 });
    world.store.subscribe(SESSION);
    await world.start();
    world.store.dispatch(CHAT, start('new'));
    world.socket.up = [];
    world.host.clients.clear(); // the host was restarted
    world.socket.drop();
    world.connection.retryNow();
    await world.settle();
    expect(world.socket.requests('subscribe').map(({ params }) => params)).toEqual([
      { channel: SESSION },
      { channel: CHAT, view: { turns: 40 } }
    ]);
    expect(world.host.applied).toEqual(['me:1']);
    expect(stateOf(world).activeTurn?.id).toBe('new');
  });

  it('subscribes what was asked for meanwhile, and what had not been answered', async () => {
    const world = await open();
    world.host.states.set(OTHER, chat({ resource: OTHER }));
    world.store.subscribe(OTHER);
    world.socket.up = [];
    world.socket.drop();
    world.store.subscribe(SESSION);
    world.connection.retryNow();
    await world.settle();
    expect(world.store.getChannel(OTHER).status).toBe('live');
    expect(world.store.getChannel(SESSION).status).toBe('live');
  });

  it('a channel let go just before a new beginning can be held again', async () => {
    const world = await new World().start();
    world.host.states.set(CHAT, chat());
    world.store.subscribe(CHAT).release();
    await world.settle();
    world.host.clients.clear();
    await world.reconnect();
    world.store.subscribe(CHAT);
    await world.settle();
    expect(world.store.getChannel(CHAT).status).toBe('live');
  });

  it('applies nothing twice', async () => {
    const world = await open(
      chat({
        activeTurn: {
          id: 't',
          startedAt: AT,
          message: message('x'),
          responseParts: [{ kind: 'markdown', id: 'p', content: '' }]
        }
      })
    );
    world.host.emit(CHAT, { type: 'chat/delta', turnId: 't', partId: 'p', content: 'a' });
    await world.settle();
    const [envelope] = world.host.log.slice(-1);
    world.socket.deliver({ jsonrpc: '2.0', method: 'action', params: envelope });
    world.host.answers.reconnect = () => ({
      result: { type: 'replay', actions: world.host.log, missing: [] }
    });
    await world.reconnect();
    expect(stateOf(world).activeTurn?.responseParts[0]).toMatchObject({ content: 'a' });
  });

  it('does not send again the action that was too large for the host', async () => {
    const world = await open();
    const small = world.store.dispatched(CHAT, { type: 'chat/isReadChanged', isRead: true });
    const large = world.store.dispatched(CHAT, start('t1', 'x'.repeat(3 * 2 ** 20)));
    large.catch(() => undefined);
    world.socket.up = [];
    await world.reconnect(1009);
    await small;
    await expect(large).rejects.toThrow('Too large for the host (3.0 MB)');
    expect(dispatches(world).map(({ clientSeq }) => clientSeq)).toEqual([1, 2, 1]);
  });
});

describe('what the host ends', () => {
  it('a session that is removed takes its chats with it', async () => {
    const world = await open();
    world.store.subscribe(SESSION);
    await world.settle();
    world.host.notify('root/sessionRemoved', { channel: ROOT, session: SESSION });
    await world.settle();
    expect(world.store.getChannel(SESSION).status).toBe('missing');
    expect(world.store.getChannel(CHAT).status).toBe('missing');
  });

  it('a chat that left its session is asked for: it may have moved', async () => {
    const world = await open();
    world.store.subscribe(SESSION);
    world.host.states.set(OTHER, chat({ resource: OTHER }));
    world.store.subscribe(OTHER);
    await world.settle();
    world.host.states.delete(CHAT);
    world.host.emit(SESSION, { type: 'session/chatRemoved', chat: CHAT });
    world.host.emit(SESSION, { type: 'session/chatRemoved', chat: OTHER });
    await world.settle();
    expect(world.store.getChannel(CHAT).status).toBe('missing');
    expect(world.store.getChannel(OTHER).status).toBe('live');
  });

  it('an action that cannot be applied costs a new snapshot, no more', async () => {
    const world = await open();
    world.socket.deliver({
      jsonrpc: '2.0',
      method: 'action',
      params: { channel: CHAT, serverSeq: ++world.host.seq, action: { type: 'chat/turnsLoaded' } }
    });
    expect(world.store.getChannel(CHAT).status).toBe('loading');
    expect(world.complaints[0]).toContain('chat/turnsLoaded');
    await world.settle();
    expect(world.store.getChannel(CHAT).status).toBe('live');
    world.host.emit(CHAT, { type: 'chat/activityChanged', activity: 'on' });
    await world.settle();
    expect(stateOf(world).activity).toBe('on');
  });
});

describe('requests', () => {
  it('mint URIs, or take those given', async () => {
    const world = await open();
    const made = world.store.createSession({ provider: 'echo' });
    const given = world.store.createSession({ channel: SESSION });
    const chatMade = world.store.createChat(SESSION, {
      source: { kind: 'fork', chat: CHAT, turnId: 't' }
    });
    await world.settle();
    expect(await made).toMatch(/^ahp-session:\/[0-9a-f-]{36}$/);
    expect(await given).toBe(SESSION);
    const [request] = world.socket.requests('createChat');
    expect(request?.params).toEqual({
      channel: SESSION,
      chat: await chatMade,
      source: { kind: 'fork', chat: CHAT, turnId: 't' }
    });
  });

  it('load older turns, once at a time', async () => {
    const world = await open(chat({ turns: [ended('b')], turnsNextCursor: 'cursor' }));
    world.host.answers.fetchTurns = () => {
      world.host.emit(CHAT, { type: 'chat/turnsLoaded', turns: [ended('a')] });
      return { result: {} };
    };
    await Promise.all([world.store.fetchTurns(CHAT), world.store.fetchTurns(CHAT), world.settle()]);
    expect(world.socket.requests('fetchTurns')).toMatchObject([
      { params: { channel: CHAT, cursor: 'cursor' } }
    ]);
    expect(stateOf(world).turns.map(({ id }) => id)).toEqual(['a', 'b']);
    await world.store.fetchTurns(CHAT);
    expect(world.socket.requests('fetchTurns')).toHaveLength(1);
  });

  it('pass notifications of other matters on', async () => {
    const world = await open();
    const listener = vi.fn();
    world.store.onNotification(listener);
    world.host.notify('auth/required', { channel: ROOT, resource: 'https://x' });
    await world.settle();
    expect(listener).toHaveBeenCalledWith('auth/required', {
      channel: ROOT,
      resource: 'https://x'
    });
  });

  it('end with the store', async () => {
    const world = await open();
    const answer = world.store.completions(CHAT, '@', 1);
    world.store.dispose();
    await expect(answer).rejects.toThrow(ConnectionLost);
    expect(world.clock.waiting).toBe(0);
  });
});

describe('the list of sessions', () => {
  const summary = (id: string, modifiedAt = AT, title = id) => ({
    resource: `ahp-session:/${id}`,
    provider: 'echo',
    title,
    status: 1,
    createdAt: AT,
    modifiedAt
  });
  const titles = (world: World) => world.store.sessions.getState().items.map(({ title }) => title);

  it('is read page by page, newest first', async () => {
    const world = new World();
    world.host.sessionPages = [
      { items: [summary('a', '2026-03-02')], nextCursor: '1' },
      { items: [summary('b', '2026-03-01'), summary('c', '2026-03-03')] }
    ];
    expect(world.store.sessions.getState()).toEqual({
      status: 'loading',
      items: [],
      unreadable: []
    });
    const listener = vi.fn();
    world.store.sessions.watch(listener);
    await world.start();
    world.frame();
    expect(titles(world)).toEqual(['c', 'a', 'b']);
    expect(world.store.sessions.getState().status).toBe('ready');
    expect(listener).toHaveBeenCalledTimes(1);
  });

  it('follows the notifications, keeping the identity of what stays', async () => {
    const world = new World();
    world.host.sessionPages = [{ items: [summary('a'), summary('b')] }];
    await world.start();
    const [a] = world.store.sessions.getState().items;
    world.host.notify('root/sessionAdded', { channel: ROOT, summary: summary('c', '2026-03-09') });
    world.host.notify('root/sessionRemoved', { channel: ROOT, session: 'ahp-session:/b' });
    world.host.notify('root/sessionSummaryChanged', {
      channel: ROOT,
      session: 'ahp-session:/c',
      changes: { title: 'C' }
    });
    world.host.notify('root/sessionSummaryChanged', {
      channel: ROOT,
      session: 'ahp-session:/unknown',
      changes: { title: 'no' }
    });
    await world.settle();
    expect(titles(world)).toEqual(['C', 'a']);
    expect(world.store.sessions.getState().items[1]).toBe(a);
  });

  it('is read anew at each connect; what was said while it was read wins', async () => {
    const world = new World();
    world.host.sessionPages = [{ items: [summary('a'), summary('b')] }];
    await world.start();
    const [a] = world.store.sessions.getState().items;
    world.host.sessionPages = [
      { items: [summary('a'), summary('gone')], nextCursor: '1' },
      { items: [summary('late', AT, 'old')] }
    ];
    world.host.answers.listSessions = ({ cursor }) => {
      if (cursor === '1') {
        world.host.notify('root/sessionRemoved', { channel: ROOT, session: 'ahp-session:/gone' });
        world.host.notify('root/sessionAdded', { channel: ROOT, summary: summary('late') });
      }
      return undefined;
    };
    await world.reconnect();
    expect(titles(world)).toEqual(['a', 'late']);
    expect(world.store.sessions.getState().items[0]).toBe(a);
  });

  it('says why it could not be read', async () => {
    const world = new World();
    world.host.answers.listSessions = () => rpcError(-32603, 'The store is locked');
    await world.start();
    expect(world.store.sessions.getState()).toMatchObject({
      status: 'failed',
      error: { message: 'The store is locked' }
    });
  });
});
