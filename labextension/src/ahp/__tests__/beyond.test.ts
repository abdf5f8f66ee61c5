import { describe, expect, it } from 'vitest';
import { attachmentLimit, HOLD, steeringOf, undoable, waitedAs } from '..';
import type { AhpAction, ChatState, Message, Turn } from '..';
import { World } from './world';

const CHAT = 'ahp-chat:/c1';
const AT = '2026-03-01T10:00:00.000Z';

const message = (text: string, _meta?: Message['_meta']): Message => ({
  text,
  origin: { kind: 'user' },
  ...(_meta ? { _meta } : {})
});
const turn = (id: string, text = id, _meta?: Message['_meta']): Turn => ({
  id,
  startedAt: AT,
  duration: 1,
  message: message(text, _meta),
  responseParts: [],
  state: 'complete'
});

async function open(turns: Turn[], _meta?: ChatState['_meta']): Promise<World> {
  const world = new World();
  const state: ChatState = { resource: CHAT, title: '', status: 1, modifiedAt: AT, turns };
  world.host.states.set(CHAT, _meta ? { ...state, _meta } : state);
  world.store.subscribe(CHAT);
  await world.start();
  return world;
}

const state = (world: World) => world.store.getState<ChatState>(CHAT)!;

describe('an undone rewind', () => {
  it('is offered from the rewind to the next turn, as the snapshots of the host say it', async () => {
    const world = await open([turn('a'), turn('b'), turn('c')]);
    expect(undoable(state(world))).toBe(0);
    const cut = { type: 'chat/truncated', turnId: 'a' } as const;
    world.host.emit(CHAT, { ...cut, _meta: { 'jupyter-ahp.undo': { turns: 2 } } });
    await world.settle();
    expect(undoable(state(world))).toBe(2);
    expect(state(world)._meta).toEqual({ 'jupyter-ahp.undo': { turns: 2 } });
    world.host.emit(CHAT, {
      type: 'chat/turnStarted',
      turnId: 'd',
      startedAt: AT,
      message: message('d')
    });
    await world.settle();
    expect(undoable(state(world))).toBe(0);
    expect(state(world)).not.toHaveProperty('_meta');
  });

  it('is asked for by a request of our own, and takes the other marks of the host along', async () => {
    const world = await open([turn('a')], { 'jupyter-ahp.undo': { turns: 1 }, other: 1 });
    expect(undoable(state(world))).toBe(1);
    world.host.answers['x-jupyter-ahp/undoRewind'] = params => {
      expect(params['channel']).toBe(CHAT);
      return { result: { turns: 1 } };
    };
    const undone = world.store.undoRewind(CHAT);
    await world.settle();
    expect(await undone).toBe(1);
    world.host.emit(CHAT, { type: 'chat/truncated' });
    await world.settle();
    expect(state(world)._meta).toEqual({ other: 1 });
  });
});

describe('a message that waits', () => {
  const queue = (id: string, text: string): AhpAction => ({
    type: 'chat/pendingMessageSet',
    kind: 'queued',
    id,
    message: message(text)
  });

  /** The host takes it, is restarted, and has made a turn of it before the client is back. */
  async function startedMeanwhile(text: string, became: string): Promise<World> {
    const world = await open([]);
    world.store.dispatch(CHAT, queue('w', text));
    world.socket.up = [];
    world.host.clients.clear();
    world.host.states.set(CHAT, {
      ...(world.host.states.get(CHAT) as ChatState),
      turns: [turn('t', became, waitedAs('w'))]
    });
    return world;
  }

  it('is not sent again when it became a turn while the connection was away', async () => {
    const world = await startedMeanwhile('plot it', 'plot it');
    await world.reconnect();
    expect(world.host.applied).toEqual([]);
    expect(world.store.getChannel(CHAT).pending).toEqual([]);
    expect(state(world).queuedMessages).toBeUndefined();
  });

  it('is refused when what became a turn are not the words that were changed last', async () => {
    const world = await startedMeanwhile('plot it by week', 'plot it');
    const refused: string[] = [];
    world.store.onRefused(({ reason }) => refused.push(reason));
    await world.reconnect();
    expect(world.host.applied).toEqual([]);
    expect(refused).toHaveLength(1);
  });
});

describe('a notice', () => {
  it('holds the message that was read there, when it is one', () => {
    const said = message('the other column');
    const part = { kind: 'systemNotification', content: said.text } as const;
    expect(steeringOf({ ...part, _meta: { 'jupyter-ahp.steering': said } })).toEqual(said);
    expect(steeringOf(part)).toBeUndefined();
    expect(steeringOf({ ...part, _meta: { 'jupyter-ahp.steering': true } })).toBeUndefined();
    expect(HOLD).toEqual({ 'jupyter-ahp.hold': true });
  });
});

describe('an action that was not sent yet', () => {
  it('can be another one, in its place; one that was sent cannot', async () => {
    const world = await open([]);
    world.accepting = false;
    world.socket.drop();
    const first = world.store.dispatch(CHAT, { type: 'chat/activityChanged', activity: 'a' });
    world.store.dispatch(CHAT, { type: 'chat/movableChanged', movable: true });
    expect(world.store.revise(first, { type: 'chat/activityChanged', activity: 'b' })).toBe(true);
    expect(state(world).activity).toBe('b');
    world.accepting = true;
    world.connection.retryNow();
    await world.settle();
    expect(world.socket.requests('dispatchAction').map(({ params }) => params.action)).toEqual([
      { type: 'chat/activityChanged', activity: 'b' },
      { type: 'chat/movableChanged', movable: true }
    ]);
    expect(world.store.revise(first, { type: 'chat/activityChanged' })).toBe(false);
  });
});

describe('what may be attached', () => {
  const greeting = (_meta?: Record<string, unknown>) => ({
    protocolVersion: '1.0.0',
    serverSeq: 1,
    snapshots: [],
    ...(_meta ? { _meta } : {})
  });
  const LIMIT = 'jupyter-ahp.attachmentLimit';
  const MESSAGE = 'jupyter-ahp.maxMessageBytes';

  it('is what the host reads, and what fits into one message', () => {
    expect(attachmentLimit(undefined)).toBe(0);
    expect(attachmentLimit(greeting())).toBe(0);
    expect(attachmentLimit(greeting({ [LIMIT]: 100 }))).toBe(100);
    expect(attachmentLimit(greeting({ [LIMIT]: 100, [MESSAGE]: 1_000_000 }))).toBe(100);
    expect(attachmentLimit(greeting({ [LIMIT]: 0, [MESSAGE]: 4096 + 400 }))).toBe(300);
    expect(attachmentLimit(greeting({ [LIMIT]: 10_000, [MESSAGE]: 4096 + 402 }))).toBe(300);
  });
});
