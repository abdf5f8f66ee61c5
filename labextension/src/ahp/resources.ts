/**
 * Reading what messages and answers name by a URI (`resourceRead`, AHP 5.3): a few at a time, each once for all who
 * want it at the same time, and the ones that never change kept as long as there is room.
 */

import { decodeBase64 } from './base64';
import type { Offers } from './offers';
import type { Params } from './jsonrpc';
import type { URI } from './types';
import { ROOT } from './uris';

export interface ResourceOptions {
  /** Bytes that are kept. */
  readonly room?: number;
  /** Requests that are under way at once. */
  readonly atOnce?: number;
}

type Request = <T>(method: string, params: Params) => Promise<T>;

export class Resources {
  readonly #request: Request;
  readonly #offers: Offers;
  readonly #room: number;
  readonly #atOnce: number;
  /** What is kept, the one that was wanted last at the end. */
  readonly #kept = new Map<URI, Blob>();
  readonly #reading = new Map<URI, Promise<Blob>>();
  readonly #line: (() => void)[] = [];
  #size = 0;
  #running = 0;

  constructor(request: Request, offers: Offers, options: ResourceOptions = {}) {
    this.#request = request;
    this.#offers = offers;
    this.#room = options.room ?? 48 * 2 ** 20;
    this.#atOnce = options.atOnce ?? 3;
  }

  /**
   * What is there. `keep` for what never changes, such as the host's copies of what was sent. Rejects with `RpcError` or
   * `ConnectionLost`.
   */
  read(uri: URI, { keep = false } = {}): Promise<Blob> {
    const here = this.#offers.get(uri) ?? this.#again(uri);
    if (here) {
      return Promise.resolve(here);
    }
    let reading = this.#reading.get(uri);
    if (!reading) {
      reading = this.#inLine(() => this.#fetch(uri)).finally(() => this.#reading.delete(uri));
      this.#reading.set(uri, reading);
    }
    return keep
      ? reading.then(blob => {
          this.#keep(uri, blob);
          return blob;
        })
      : reading;
  }

  async #fetch(uri: URI): Promise<Blob> {
    const answer = await this.#request<{ data: string; encoding: string; contentType?: string }>(
      'resourceRead',
      { channel: ROOT, uri, encoding: 'base64' }
    );
    const type = answer.contentType ?? '';
    return answer.encoding === 'base64'
      ? new Blob([decodeBase64(answer.data)], { type })
      : new Blob([answer.data], { type });
  }

  /** What is kept of it; it is wanted now, so that others make room before it does. */
  #again(uri: URI): Blob | undefined {
    const blob = this.#kept.get(uri);
    if (blob) {
      this.#kept.delete(uri);
      this.#kept.set(uri, blob);
    }
    return blob;
  }

  #keep(uri: URI, blob: Blob): void {
    if (this.#kept.has(uri)) {
      return; // another one who waited for it was first
    }
    this.#kept.set(uri, blob);
    this.#size += blob.size;
    for (const [oldest, { size }] of this.#kept) {
      if (this.#size <= this.#room) {
        break;
      }
      this.#kept.delete(oldest);
      this.#size -= size;
    }
  }

  async #inLine<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#atOnce) {
      await new Promise<void>(go => this.#line.push(go));
    } else {
      this.#running += 1;
    }
    try {
      return await work();
    } finally {
      const next = this.#line.shift();
      if (next) {
        next(); // the place goes on to who waits longest
      } else {
        this.#running -= 1;
      }
    }
  }
}
