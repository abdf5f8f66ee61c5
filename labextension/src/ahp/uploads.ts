/**
 * Files that go to the host ahead of the message that carries them: piece by piece, so that nobody on the socket waits
 * for long, and none is too large for one frame. Ours, beyond the protocol; `resourceWrite` carries it (AHP 5.3).
 */

import { encodeBase64 } from './base64';
import { maxMessageBytes, uploadPlace } from './beyond';
import { uuid } from './ids';
import type { Params } from './jsonrpc';
import type { InitializeResult, URI } from './types';
import { ROOT } from './uris';

/** What a frame has beside the base64 of a piece. */
const AROUND = 4096;

/** Puts a file there; its URI, for one message to name. Undefined where the host has no such place. Rejects as requests do. */
export async function upload(
  request: (method: string, params: Params) => Promise<unknown>,
  host: InitializeResult | undefined,
  file: Blob
): Promise<URI | undefined> {
  const place = uploadPlace(host);
  if (!place) {
    return undefined;
  }
  const most = maxMessageBytes(host);
  const fits = most === undefined ? Infinity : Math.max(1, Math.floor(((most - AROUND) / 4) * 3));
  const size = Math.min(place.pieceBytes, fits);
  const uri = `${place.uri}${uuid()}`;
  for (let at = 0; at < file.size || at === 0; at += size) {
    const piece = await file.slice(at, at + size).arrayBuffer();
    await request('resourceWrite', {
      channel: ROOT,
      uri,
      data: encodeBase64(new Uint8Array(piece)),
      encoding: 'base64',
      // with its place a piece whose answer was lost can be sent again
      mode: 'truncate',
      position: at
    });
  }
  return uri;
}
