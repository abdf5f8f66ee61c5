// @vitest-environment node
import { describe, expect, it, vi } from 'vitest';
import {
  attachmentLimit,
  ErrorCode,
  type InitializeResult,
  offeredBy,
  Offers,
  Resources
} from '..';
import { upload } from '../uploads';

const text = (blob: Blob): Promise<string> => blob.text();
const answer = (said: string) => ({
  data: btoa(said),
  encoding: 'base64',
  contentType: 'text/plain'
});

describe('what only this client has', () => {
  it('is read under its URI, byte by byte, until it is withdrawn', async () => {
    const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => index % 256);
    const offers = new Offers('me');
    const uri = offers.offer(new Blob([bytes], { type: 'image/png' }), 'a plot/1.png');
    expect(offeredBy(uri)).toBe('me');
    expect(uri).toMatch(/^x-jupyter-ahp:\/\/me\/[^/]+\/a%20plot%2F1\.png$/);
    const { data, encoding, contentType } = await offers.read({ uri });
    expect([encoding, contentType]).toEqual(['base64', 'image/png']);
    const read = Uint8Array.from(atob(String(data)), character => character.charCodeAt(0));
    expect(read).toEqual(bytes);
    offers.withdraw(uri);
    await expect(offers.read({ uri })).rejects.toMatchObject({ code: ErrorCode.NotFound });
  });

  it('is nothing else: a file of this machine is not there', async () => {
    const offers = new Offers('me');
    await expect(offers.read({ uri: 'file:///etc/passwd' })).rejects.toMatchObject({
      code: ErrorCode.NotFound
    });
    expect(offeredBy('file:///etc/passwd')).toBeUndefined();
  });
});

describe('what messages name', () => {
  it('is asked for once by all who want it at the same time, and again later unless it is kept', async () => {
    const asked: string[] = [];
    const resources = new Resources(async (_, { uri }) => {
      asked.push(String(uri));
      return answer(String(uri)) as never;
    }, new Offers('me'));
    const [one, two] = await Promise.all([
      resources.read('file:///a'),
      resources.read('file:///a')
    ]);
    expect(await text(one)).toBe('file:///a');
    expect(two).toBe(one);
    await resources.read('file:///a');
    await resources.read('file:///b', { keep: true });
    await resources.read('file:///b', { keep: true });
    expect(asked).toEqual(['file:///a', 'file:///a', 'file:///b']);
  });

  it('is kept as long as there is room: what was wanted last stays', async () => {
    const asked: string[] = [];
    const resources = new Resources(
      async (_, { uri }) => {
        asked.push(String(uri));
        return answer('1234') as never;
      },
      new Offers('me'),
      { room: 8 }
    );
    const read = (uri: string) => resources.read(uri, { keep: true });
    await read('x:a');
    await read('x:b');
    await read('x:a'); // wanted again
    await read('x:c'); // no room for b
    await read('x:a');
    await read('x:b');
    expect(asked).toEqual(['x:a', 'x:b', 'x:c', 'x:b']);
  });

  it('is asked for a few at a time, past one that fails', async () => {
    const waiting: (() => void)[] = [];
    let most = 0;
    let now = 0;
    const resources = new Resources(
      async (_, { uri }) => {
        most = Math.max(most, ++now);
        await new Promise<void>(go => waiting.push(go));
        now -= 1;
        if (uri === 'x:1') {
          throw new Error('gone');
        }
        return answer('!') as never;
      },
      new Offers('me'),
      { atOnce: 2 }
    );
    const all = Promise.allSettled(['x:1', 'x:2', 'x:3', 'x:4'].map(uri => resources.read(uri)));
    for (let round = 0; round < 20; round++) {
      waiting.shift()?.();
      await new Promise(settled => setTimeout(settled));
    }
    expect((await all).map(({ status }) => status)).toEqual([
      'rejected',
      'fulfilled',
      'fulfilled',
      'fulfilled'
    ]);
    expect(most).toBe(2);
  });

  it('is here when this client offers it', async () => {
    const offers = new Offers('me');
    const resources = new Resources(() => Promise.reject(new Error('asked')), offers);
    const blob = new Blob(['mine']);
    expect(await resources.read(offers.offer(blob, 'x'))).toBe(blob);
  });
});

describe('a file that goes ahead of its message', () => {
  const host = (meta: Record<string, unknown>): InitializeResult => ({
    protocolVersion: '1.0.0',
    serverSeq: 0,
    snapshots: [],
    _meta: meta
  });
  const place = { uri: 'file:///uploads/me/', pieceBytes: 4, maxBytes: 100 };

  it('is written piece by piece, where the host said, in pieces that a frame holds', async () => {
    const written: Record<string, unknown>[] = [];
    const request = async (method: string, params: object): Promise<unknown> => {
      written.push({ method, ...params });
      return {};
    };
    const uri = await upload(
      request,
      host({ 'jupyter-ahp.uploads': place }),
      new Blob(['123456789'])
    );
    expect(uri).toMatch(/^file:\/\/\/uploads\/me\/[0-9a-f-]{36}$/);
    expect(
      written.map(({ method, uri: to, mode, position, data }) => [
        method,
        to,
        mode,
        position,
        atob(String(data))
      ])
    ).toEqual([
      ['resourceWrite', uri, 'truncate', 0, '1234'],
      ['resourceWrite', uri, 'truncate', 4, '5678'],
      ['resourceWrite', uri, 'truncate', 8, '9']
    ]);
    written.length = 0;
    const tight = { 'jupyter-ahp.uploads': place, 'jupyter-ahp.maxMessageBytes': 4096 + 4 };
    await upload(request, host(tight), new Blob(['1234']));
    expect(written.map(({ position }) => position)).toEqual([0, 3]);
    written.length = 0;
    await upload(request, host({ 'jupyter-ahp.uploads': place }), new Blob([]));
    expect(written.map(({ data }) => data)).toEqual(['']);
  });

  it('stays here where the host has no place for it', async () => {
    const asked = vi.fn();
    expect(await upload(asked, host({}), new Blob(['x']))).toBeUndefined();
    expect(asked).not.toHaveBeenCalled();
    const limit = { 'jupyter-ahp.attachmentLimit': 7 };
    expect(attachmentLimit(host(limit))).toBe(7);
    expect(attachmentLimit(host({ ...limit, 'jupyter-ahp.uploads': place }))).toBe(100);
  });
});
