import { describe, expect, it } from 'vitest';
import { AhpConnection, ConnectionLost, ErrorCode, HandshakeRefused, RpcError } from '..';
import { FakeSocket, ticks, rpcError, World } from './world';

const CHAT = 'ahp-chat:/c1';
const chat = {
  resource: CHAT,
  title: '',
  status: 1,
  modifiedAt: '2026-03-01T10:00:00.000Z',
  turns: []
};

/** A world whose store holds a chat. */
async function withChat(): Promise<World> {
  const world = new World();
  world.host.states.set(CHAT, chat);
  world.store.subscribe(CHAT);
  await world.start();
  return world;
}

describe('handshake', () => {
  it('initializes with both versions, who it is, and the root', async () => {
    const world = await new World({ locale: 'de' }).start();
    expect(world.socket.sent[0]).toMatchObject({
      jsonrpc: '2.0',
      method: 'initialize',
      params: {
        channel: 'ahp-root://',
        protocolVersions: ['1.0.0', '0.9.0'],
        clientId: 'me',
        clientInfo: { name: 'jupyter-ahp-lab' },
        initialSubscriptions: ['ahp-root://'],
        locale: 'de'
      }
    });
    expect(world.connection.getState()).toEqual({ status: 'open', attempt: 0 });
    expect(world.connection.host?.protocolVersion).toBe('1.0.0');
  });

  it('takes a socket that is open already', async () => {
    const world: World = new World({
      open: async () => {
        const socket = new FakeSocket(world.host);
        world.sockets.push(socket);
        socket.accept();
        return socket;
      }
    });
    await world.start();
    expect(world.status).toBe('open');
  });

  it('gives a try up after its time, closes its socket, and tries again', async () => {
    const world = new World();
    world.accepting = false;
    await world.start();
    expect(world.connection.getState()).toMatchObject({ status: 'connecting', attempt: 1 });
    world.clock.advance(30_000);
    expect(world.connection.getState()).toMatchObject({
      status: 'waiting',
      reason: 'The host did not answer in time'
    });
    expect(world.socket.closedWith).toBeDefined();
    world.accepting = true;
    world.clock.advance(2_000);
    await world.settle();
    expect(world.sockets).toHaveLength(2);
    expect(world.status).toBe('open');
  });

  it('closes a socket that comes when its try is over', async () => {
    let arrive: (socket: FakeSocket) => void = () => undefined;
    const world = new World({ open: () => new Promise<FakeSocket>(resolve => (arrive = resolve)) });
    await world.start();
    world.clock.advance(30_000);
    const late = new FakeSocket(world.host);
    arrive(late);
    await ticks();
    expect(late.closedWith).toMatchObject({ code: 1000 });
    expect(world.status).toBe('waiting');
  });

  it.each([
    ['throws', () => Promise.reject(new Error('no such address'))],
    [
      'throws at once',
      () => {
        throw new Error('no such address');
      }
    ]
  ])('an address that %s is a failed try', async (_, open) => {
    const world = await new World({ open }).start();
    expect(world.connection.getState()).toMatchObject({
      status: 'waiting',
      reason: 'no such address'
    });
  });
});

describe('refusal', () => {
  it('of all versions is told in words, and only retryNow tries again', async () => {
    const world = new World();
    world.host.answers.initialize = () =>
      rpcError(ErrorCode.UnsupportedProtocolVersion, 'no', { supportedVersions: ['^2.0.0'] });
    await world.start();
    const state = world.connection.getState();
    expect(state).toMatchObject({ status: 'refused' });
    expect(state.reason).toContain('^2.0.0');
    expect(state.reason).toContain('1.0.0 and 0.9.0');
    world.clock.advance(3_600_000);
    world.wake();
    expect(world.sockets).toHaveLength(1);
    delete world.host.answers.initialize;
    world.connection.retryNow();
    await world.settle();
    expect(world.status).toBe('open');
  });

  it.each([
    ['permission', -32009],
    ['a sign-in', -32007]
  ])('for want of %s ends the tries', async (_, code) => {
    const world = new World();
    world.host.answers.initialize = () => rpcError(code, 'You may not');
    await world.start();
    expect(world.connection.getState()).toMatchObject({ status: 'refused', reason: 'You may not' });
  });

  it('by a close for policy during the handshake ends the tries; later it does not', async () => {
    const world = new World();
    world.host.answers.initialize = () => null;
    await world.start();
    world.socket.drop(1008, 'Your token was revoked');
    expect(world.connection.getState()).toMatchObject({
      status: 'refused',
      reason: 'Your token was revoked'
    });
    delete world.host.answers.initialize;
    world.connection.retryNow();
    await world.settle();
    world.socket.drop(1008, 'x');
    expect(world.status).toBe('waiting');
  });

  it('by whoever makes the sockets ends the tries', async () => {
    const open = () => Promise.reject(new HandshakeRefused('Sign in first'));
    const world = await new World({ open }).start();
    expect(world.connection.getState()).toMatchObject({
      status: 'refused',
      reason: 'Sign in first'
    });
  });

  it('is what a version that was not offered amounts to', async () => {
    const world = new World();
    world.host.answers.initialize = () => ({
      result: { protocolVersion: '3.0.0', serverSeq: 1, snapshots: [] }
    });
    await world.start();
    expect(world.connection.getState()).toMatchObject({ status: 'refused' });
    expect(world.connection.getState().reason).toContain('3.0.0');
  });
});

describe('coming back', () => {
  it.each([1000, 1001, 1006, 1011, 1012, 4008, 4401])('after a close with %i', async code => {
    const world = await new World().start();
    world.socket.drop(code);
    expect(world.status).toBe('waiting');
    world.clock.advance(2_000);
    await world.settle();
    expect(world.status).toBe('open');
  });

  it('says what it saw last and what it holds, and is given what it missed', async () => {
    const world = await withChat();
    world.host.emit(CHAT, { type: 'chat/activityChanged', activity: 'thinking' });
    await world.settle();
    const seen = world.host.seq;
    world.socket.drop();
    world.host.emit(CHAT, { type: 'chat/activityChanged', activity: 'writing' });
    world.connection.retryNow();
    await world.settle();
    expect(world.socket.sent[0]).toMatchObject({
      method: 'reconnect',
      params: {
        channel: 'ahp-root://',
        clientId: 'me',
        lastSeenServerSeq: seen,
        subscriptions: ['ahp-root://', CHAT]
      }
    });
    expect(world.socket.requests('initialize')).toHaveLength(0);
    expect(world.store.getState(CHAT)).toMatchObject({ activity: 'writing' });
  });

  it('counts nothing as seen that was not delivered', async () => {
    const world = await withChat();
    const seen = world.host.seq;
    world.host.emit(CHAT, { type: 'chat/activityChanged', activity: 'lost' });
    world.socket.down = []; // on its way when the wire broke
    await world.reconnect();
    expect(world.socket.sent[0]?.params.lastSeenServerSeq).toBe(seen);
    expect(world.store.getState(CHAT)).toMatchObject({ activity: 'lost' });
  });

  it.each([-32008, -32601, -32603])(
    'as an unknown client (%i) begins anew on the same socket, under the same id',
    async code => {
      const world = await withChat();
      world.host.answers.reconnect = () => rpcError(code, 'Who?');
      world.host.states.set(CHAT, { ...chat, title: 'Kept' });
      await world.reconnect();
      expect(world.socket.sent.map(({ method }) => method)).toEqual([
        'reconnect',
        'initialize',
        'subscribe',
        'listSessions'
      ]);
      expect(world.socket.sent[1]?.params.clientId).toBe('me');
      expect(world.store.getState(CHAT)).toMatchObject({ title: 'Kept' });
      expect(world.status).toBe('open');
    }
  );

  it('waits longer each time, between one second and thirty, for ever', async () => {
    const world = new World({ open: () => Promise.reject(new Error('down')) });
    await world.start();
    const waits: number[] = [];
    for (let attempt = 1; attempt <= 40; attempt++) {
      const state = world.connection.getState();
      expect(state).toMatchObject({ status: 'waiting', attempt });
      waits.push(state.nextTryAt! - world.clock.now());
      world.clock.chance = attempt % 2 ? 0 : 0.999;
      world.clock.advance(waits.at(-1)!);
      await ticks();
    }
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(1_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(30_000);
    expect(Math.min(...waits.slice(10))).toBeGreaterThanOrEqual(15_000);
    expect(new Set(waits.slice(10).map(Math.round)).size).toBeGreaterThan(1);
  });

  it('waits shortly again after a connection that held, not after one that flickers', async () => {
    const world = await new World().start();
    for (let i = 0; i < 5; i++) {
      world.socket.drop();
      world.connection.retryNow();
      await world.settle();
    }
    world.socket.drop();
    expect(world.connection.getState().attempt).toBe(6);
    world.connection.retryNow();
    await world.settle();
    world.clock.advance(9_000);
    await world.settle();
    world.clock.advance(2_000);
    world.socket.drop();
    expect(world.connection.getState().attempt).toBe(1);
  });

  it('does not wait when told to, when the network is back, when the page is looked at', async () => {
    const world = await new World().start();
    world.socket.drop();
    world.connection.retryNow();
    await world.settle();
    expect(world.status).toBe('open');
    world.socket.drop();
    world.wake();
    await world.settle();
    expect(world.status).toBe('open');
    expect(world.sockets).toHaveLength(3);
  });

  it('asks for the address at each try', async () => {
    let calls = 0;
    const world = new World({
      open: () => {
        calls += 1;
        return Promise.reject(new Error('down'));
      }
    });
    await world.start();
    world.connection.retryNow();
    await ticks();
    expect(calls).toBe(2);
  });

  it('never happens once it was closed', async () => {
    const world = await new World().start();
    world.connection.close();
    expect(world.status).toBe('closed');
    expect(world.socket.closedWith).toMatchObject({ code: 1000 });
    world.clock.advance(3_600_000);
    world.wake();
    expect(world.sockets).toHaveLength(1);
    expect(world.clock.waiting).toBe(0);
  });

  it('gives a new state object for each change, and only then', async () => {
    const world = new World();
    const seen: string[] = [];
    world.connection.watch(() => seen.push(world.status));
    await world.start();
    await world.reconnect();
    expect(seen).toEqual(['connecting', 'open', 'waiting', 'connecting', 'open']);
    expect(world.connection.getState()).toBe(world.connection.getState());
  });
});

describe('liveness', () => {
  it('asks after ten silent seconds, and is content with any answer', async () => {
    const world = await new World().start();
    world.host.answers.ping = () => rpcError(-32601, 'what?');
    world.clock.advance(9_999);
    expect(world.socket.requests('ping')).toHaveLength(0);
    world.clock.advance(1);
    expect(world.socket.requests('ping')).toHaveLength(1);
    await world.settle();
    world.clock.advance(9_999);
    expect(world.status).toBe('open');
    for (let i = 0; i < 10; i++) {
      world.clock.advance(10_000);
      await world.settle();
    }
    expect(world.status).toBe('open');
  });

  it('does not ask while the host talks', async () => {
    const world = await withChat();
    for (let i = 0; i < 12; i++) {
      world.clock.advance(5_000);
      world.host.emit(CHAT, { type: 'chat/activityChanged', activity: String(i) });
      await world.settle();
    }
    expect(world.socket.requests('ping')).toHaveLength(0);
  });

  it('gives a socket up after twenty seconds more, without waiting for its close', async () => {
    const world = await new World().start();
    world.host.silent = true;
    world.clock.advance(29_999);
    expect(world.status).toBe('open');
    world.clock.advance(1);
    expect(world.socket.closedWith).toMatchObject({ code: 4000 });
    expect(world.connection.getState()).toMatchObject({
      status: 'waiting',
      reason: 'The host stopped answering'
    });
    world.host.silent = false;
    world.clock.advance(2_000);
    await world.settle();
    expect(world.status).toBe('open');
  });

  it('doubts its socket when the page wakes', async () => {
    const world = await new World().start();
    world.wake();
    expect(world.socket.requests('ping')).toHaveLength(1);
    await world.settle();
    world.clock.advance(5_000);
    expect(world.status).toBe('open');
    world.host.silent = true;
    world.wake();
    world.clock.advance(5_000);
    expect(world.status).toBe('waiting');
  });
});

describe('requests', () => {
  it('wait for a try that is under way', async () => {
    const world = new World();
    world.connection.start();
    const answer = world.connection.request('createSession', { channel: 'ahp-session:/1' });
    await world.settle();
    expect(await answer).toBeNull();
  });

  it('are rejected with the code of the host', async () => {
    const world = await new World().start();
    const answer = world.connection.request('nonsense', { channel: 'ahp-root://' });
    answer.catch(() => undefined);
    await world.settle();
    await expect(answer).rejects.toThrow(RpcError);
    await expect(answer).rejects.toMatchObject({ code: -32601 });
  });

  it('are rejected when the connection goes, and at once when there is none', async () => {
    const world = await new World().start();
    const lost = world.connection.request('x', { channel: 'ahp-root://' });
    lost.catch(() => undefined);
    world.socket.drop();
    await expect(lost).rejects.toThrow(ConnectionLost);
    await expect(world.connection.request('x', {})).rejects.toThrow(ConnectionLost);
    expect(world.connection.notify('x', {})).toBe(false);
  });

  it('are rejected when the try that they wait for fails', async () => {
    const world = new World({ open: () => Promise.reject(new Error('down')) });
    world.connection.start();
    await expect(world.connection.request('x', {})).rejects.toThrow('down');
  });

  it('of the host are answered by their handler', async () => {
    const world = await new World().start();
    const ask = async (id: number | string, method: string) => {
      world.socket.deliver({ jsonrpc: '2.0', id, method, params: { uri: 'file:///a' } });
      await ticks();
      const { jsonrpc: _, ...answer } = world.socket.sent.at(-1)!;
      return answer;
    };
    const undo = world.connection.handle('resourceRead', async ({ uri }) => ({
      data: `of ${uri}`
    }));
    world.connection.handle('resourceList', () => {
      throw new RpcError(-32009, 'Not yours', { request: 1 });
    });
    world.connection.handle('resourceMkdir', () => {
      throw new Error('disk full');
    });
    expect(await ask(7, 'resourceRead')).toEqual({ id: 7, result: { data: 'of file:///a' } });
    expect(await ask('a', 'resourceList')).toEqual({
      id: 'a',
      error: { code: -32009, message: 'Not yours', data: { request: 1 } }
    });
    expect(await ask(8, 'resourceMkdir')).toEqual({
      id: 8,
      error: { code: -32603, message: 'disk full' }
    });
    undo();
    expect(await ask(9, 'resourceRead')).toMatchObject({ id: 9, error: { code: -32601 } });
  });

  it('bad frames are left out, answered where they can be, and the connection lives on', async () => {
    const world = await new World().start();
    world.socket.deliver('{');
    world.socket.deliver({ jsonrpc: '2.0', id: 5, method: 5 });
    world.socket.deliver({ jsonrpc: '2.0', id: 999, result: 1 });
    expect(world.socket.sent.at(-1)).toMatchObject({ id: 5, error: { code: -32600 } });
    expect(world.complaints).toHaveLength(3);
    expect(world.status).toBe('open');
  });

  it('that cannot be sent end the socket', async () => {
    const world = await new World().start();
    world.socket.readyState = 2;
    const answer = world.connection.request('x', {});
    await expect(answer).rejects.toThrow(ConnectionLost);
    expect(world.status).toBe('waiting');
  });
});

it('has an id of its own when none is given', () => {
  const open = () => Promise.reject(new Error('down'));
  expect(new AhpConnection({ open }).clientId).not.toBe(new AhpConnection({ open }).clientId);
});
