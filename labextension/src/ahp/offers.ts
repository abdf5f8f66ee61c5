/**
 * What only this client has, such as a pasted picture, and the host may read through the connection (AHP 5.3): it is
 * named in a message, and fetched by the host while it takes the message in.
 */

import { encodeBase64 } from './base64';
import { ErrorCode, RpcError } from './errors';
import { uuid } from './ids';
import type { Params } from './jsonrpc';
import type { URI } from './types';

const SCHEME = 'x-jupyter-ahp';

/** The client that a resource of this kind is read from; undefined for every other URI. */
export function offeredBy(uri: URI): string | undefined {
  return new RegExp(`^${SCHEME}://([^/]+)/`).exec(uri)?.[1];
}

export class Offers {
  readonly #clientId: string;
  readonly #blobs = new Map<URI, Blob>();

  constructor(clientId: string) {
    this.#clientId = clientId;
  }

  /** Keeps it to be read, under the URI that is returned, until it is withdrawn. */
  offer(blob: Blob, name: string): URI {
    const uri = `${SCHEME}://${this.#clientId}/${uuid()}/${encodeURIComponent(name)}`;
    this.#blobs.set(uri, blob);
    return uri;
  }

  /** Remembers what is at the host already, to be looked at here. */
  remember(uri: URI, blob: Blob): void {
    this.#blobs.set(uri, blob);
  }

  get(uri: URI): Blob | undefined {
    return this.#blobs.get(uri);
  }

  /** Nobody will read it any more. */
  withdraw(uri: URI): void {
    this.#blobs.delete(uri);
  }

  /** Answers the host's `resourceRead`. Throws an `RpcError` for what is not, or no longer, offered here. */
  read = async ({ uri }: Params): Promise<Params> => {
    const blob = this.#blobs.get(String(uri));
    if (!blob) {
      throw new RpcError(
        ErrorCode.NotFound,
        `This client has no ${String(uri)}. It serves what was pasted or dropped into a chat, until it was sent.`
      );
    }
    return {
      data: encodeBase64(new Uint8Array(await blob.arrayBuffer())),
      encoding: 'base64',
      ...(blob.type ? { contentType: blob.type } : {})
    };
  };
}
