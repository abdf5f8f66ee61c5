/** URIs, versions and JSON-RPC frames, by the fixtures that both languages share. */

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { RpcError } from '../errors';
import { uuid } from '../ids';
import { parseFrame } from '../jsonrpc';
import {
  annotationsUri,
  canonicalUri,
  channelKind,
  newChatUri,
  newSessionUri,
  sessionId
} from '../uris';
import { OFFERED_VERSIONS, negotiate } from '../versions';

function fixture(name: string): any {
  const folder = resolve(import.meta.dirname, '../../../../tests/protocol/fixtures');
  return JSON.parse(readFileSync(resolve(folder, name), 'utf8'));
}

describe('versions', () => {
  const { negotiate: cases } = fixture('versions.json');

  it.each(cases as any[])('$offered', ({ offered, chosen, error, supportedVersions }) => {
    if (error === undefined) {
      expect(negotiate(offered)).toBe(chosen);
      return;
    }
    let thrown: unknown;
    try {
      negotiate(offered);
    } catch (caught) {
      thrown = caught;
    }
    expect(thrown).toBeInstanceOf(RpcError);
    expect(thrown).toMatchObject({ code: error });
    if (supportedVersions) {
      expect((thrown as RpcError).data).toEqual({ supportedVersions });
    }
  });

  it('what this client offers is served by our own host', () => {
    expect(negotiate(OFFERED_VERSIONS)).toBe('1.0.0');
  });
});

describe('uris', () => {
  const uris = fixture('uris.json');

  it.each(uris.canonical as any[])('canonical: $in', ({ in: uri, out }) => {
    expect(canonicalUri(uri)).toBe(out);
    expect(canonicalUri(out)).toBe(out);
  });

  it.each(uris.kind as any[])('kind: $in', ({ in: uri, kind }) => {
    expect(channelKind(uri) ?? null).toBe(kind);
  });

  it.each(uris.sessionId as any[])('session id: $in', ({ in: uri, id }) => {
    expect(sessionId(uri) ?? null).toBe(id);
  });

  it.each((uris.invalid as string[]).map(uri => [uri]))('invalid: %j', uri => {
    expect(() => canonicalUri(uri)).toThrow(TypeError);
    expect(channelKind(uri)).toBeUndefined();
    expect(sessionId(uri)).toBeUndefined();
  });

  it('what is minted is of its kind, and new each time', () => {
    expect(channelKind(newSessionUri())).toBe('session');
    expect(channelKind(newChatUri())).toBe('chat');
    expect(channelKind(annotationsUri(newSessionUri()))).toBe('annotations');
    expect(newChatUri()).not.toBe(newChatUri());
  });
});

describe('ids', () => {
  it('are version 4 UUIDs, also where randomUUID is missing', () => {
    const pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    expect(uuid()).toMatch(pattern);
    const { crypto } = globalThis;
    const plain = { getRandomValues: crypto.getRandomValues.bind(crypto) };
    Object.defineProperty(globalThis, 'crypto', { value: plain, configurable: true });
    try {
      expect(uuid()).toMatch(pattern);
    } finally {
      Object.defineProperty(globalThis, 'crypto', { value: crypto, configurable: true });
    }
  });
});

describe('frames', () => {
  const { cases } = fixture('jsonrpc.json') as { cases: any[] };
  // `repeat` builds the frames against which a host defends itself by limits of its own.
  const readable = cases.filter(entry => !entry.repeat);

  it.each(readable.map((entry, index) => [index, entry.frame ?? 'binary', entry] as const))(
    '%i: %s',
    (_index, _frame, entry) => {
      const frame =
        entry.bytes === undefined
          ? entry.frame
          : Uint8Array.from(Buffer.from(entry.bytes, 'base64'));
      const { kind, ...rest } = parseFrame(frame);
      if (entry.error) {
        expect(kind).toBe('invalid');
        expect(rest).toMatchObject(entry.error);
      } else {
        expect({ [kind]: rest }).toEqual(
          Object.fromEntries(Object.entries(entry).filter(([key]) => key in { [kind]: 0 }))
        );
      }
    }
  );
});
