/**
 * One socket, from its opening to its end: requests and their answers, what the host asks, and
 * whether the other side still lives. It never comes back; `AhpConnection` makes the next one.
 */

import type { Clock } from './clock';
import { asError, ConnectionLost, ErrorCode, RpcError } from './errors';
import {
  errorFrame,
  notificationFrame,
  parseFrame,
  requestFrame,
  resultFrame,
  type Params,
  type RequestId
} from './jsonrpc';
import type { SocketLike } from './socket';
import { ROOT } from './uris';

/** After so long without a word the host is asked for one; that long after, the socket is given up. */
export interface Liveness {
  readonly pingAfterMs: number;
  readonly deadAfterMs: number;
  /** The same, when the page wakes and doubts that its socket lived through it. */
  readonly probeMs: number;
}

export interface Close {
  readonly code: number;
  readonly reason: string;
}

/** Called in the very tick in which the answer comes, so ahead of every later frame. */
export interface Answer {
  ok(result: unknown): void;
  fail(error: Error): void;
}

export interface LinkListener {
  opened(): void;
  notification(method: string, params: Params): void;
  /** A request of the host's; its outcome is sent back. Throws `RpcError` for a code of its own. */
  request(method: string, params: Params): unknown;
  /** Once, however it ended; nothing else is called afterwards. */
  closed(close: Close): void;
  /** Something that a host should not have sent, and what was done about it. */
  complain(message: string): void;
}

/** Close codes of this client; the rest of the range is the protocol's or the host's. */
const ABNORMAL = 1006;
const NO_ANSWER = 4000;

export class Link {
  readonly #socket: SocketLike;
  readonly #listener: LinkListener;
  readonly #clock: Clock;
  readonly #liveness: Liveness;
  readonly #calls = new Map<number, Answer>();
  #nextId = 1;
  #open = false;
  #ended = false;
  #heardAt = 0;
  #timer: unknown;

  constructor(socket: SocketLike, listener: LinkListener, clock: Clock, liveness: Liveness) {
    this.#socket = socket;
    this.#listener = listener;
    this.#clock = clock;
    this.#liveness = liveness;
    socket.onopen = () => this.#opened();
    socket.onmessage = event => this.#received(event.data);
    socket.onclose = event =>
      this.#end({ code: event?.code ?? ABNORMAL, reason: event?.reason ?? '' });
    // An error is followed by a close that says more.
    socket.onerror = () => undefined;
  }

  /** To be called once the maker has the link in its hand: a socket may be open from the start. */
  begin(): void {
    if (this.#socket.readyState === 1) {
      this.#opened();
    }
  }

  /** Asks the host; the answer is told to `answer`, the end of the link as `ConnectionLost`. */
  call(method: string, params: Params, answer: Answer): void {
    if (this.#ended) {
      answer.fail(new ConnectionLost('The connection to the host was lost'));
      return;
    }
    const id = this.#nextId++;
    this.#calls.set(id, answer);
    this.#send(requestFrame(id, method, params));
  }

  notify(method: string, params: Params): void {
    this.#send(notificationFrame(method, params));
  }

  /** Makes sure soon that the host still answers; without an answer the link ends. */
  probe(): void {
    if (this.#open && !this.#ended) {
      this.#ping(this.#liveness.probeMs);
    }
  }

  close(code: number, reason: string): void {
    this.#end({ code, reason }, true);
  }

  #opened(): void {
    if (this.#open || this.#ended) {
      return;
    }
    this.#open = true;
    this.#heardAt = this.#clock.now();
    this.#watchSilence(this.#liveness.pingAfterMs);
    this.#listener.opened();
  }

  #send(frame: string): void {
    if (this.#ended) {
      return;
    }
    try {
      this.#socket.send(frame);
    } catch (error) {
      // Not within the caller's own work: what it sends to is about to be taken away.
      const { message } = asError(error);
      queueMicrotask(() => this.#end({ code: ABNORMAL, reason: message }, true));
    }
  }

  #received(data: unknown): void {
    this.#heardAt = this.#clock.now();
    const message = parseFrame(data);
    switch (message.kind) {
      case 'response': {
        const answer = typeof message.id === 'number' ? this.#calls.get(message.id) : undefined;
        if (!answer) {
          this.#listener.complain(
            `The host answered a request that was not made: ${JSON.stringify(message)}`
          );
          return;
        }
        this.#calls.delete(message.id as number);
        if (message.error) {
          answer.fail(new RpcError(message.error.code, message.error.message, message.error.data));
        } else {
          answer.ok(message.result);
        }
        return;
      }
      case 'notification':
        this.#listener.notification(message.method, message.params);
        return;
      case 'request':
        void this.#serve(message.id, message.method, message.params);
        return;
      case 'invalid':
        this.#listener.complain(`The host sent a frame that was left out. ${message.message}`);
        if (message.id !== null) {
          this.#send(errorFrame(message.id, { code: message.code, message: message.message }));
        }
    }
  }

  async #serve(id: RequestId, method: string, params: Params): Promise<void> {
    try {
      this.#send(resultFrame(id, await this.#listener.request(method, params)));
    } catch (error) {
      const { message } = asError(error);
      const { code, data } =
        error instanceof RpcError ? error : { code: ErrorCode.InternalError, data: undefined };
      this.#send(errorFrame(id, { code, message, data }));
    }
  }

  /** One timer looks at the time of the last word, rather than one set anew by each word. */
  #watchSilence(ms: number): void {
    this.#clock.clearTimeout(this.#timer);
    this.#timer = this.#clock.setTimeout(() => {
      const left = this.#heardAt + this.#liveness.pingAfterMs - this.#clock.now();
      if (left > 0) {
        this.#watchSilence(left);
      } else {
        this.#ping(this.#liveness.deadAfterMs);
      }
    }, ms);
  }

  #ping(deadline: number): void {
    let heard = false;
    const answered = () => {
      heard = true;
    };
    const heardBefore = this.#heardAt;
    // Any answer will do, an error too; and so does any other word of the host's.
    this.call('ping', { channel: ROOT }, { ok: answered, fail: answered });
    this.#clock.clearTimeout(this.#timer);
    this.#timer = this.#clock.setTimeout(() => {
      if (heard || this.#heardAt > heardBefore) {
        this.#watchSilence(
          Math.max(0, this.#heardAt + this.#liveness.pingAfterMs - this.#clock.now())
        );
      } else {
        this.#end({ code: NO_ANSWER, reason: 'The host stopped answering' }, true);
      }
    }, deadline);
  }

  #end(close: Close, closeSocket = false): void {
    if (this.#ended) {
      return;
    }
    this.#ended = true;
    this.#clock.clearTimeout(this.#timer);
    const socket = this.#socket;
    socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
    if (closeSocket) {
      try {
        // A browser takes 1000 and the private range only.
        socket.close(close.code >= 3000 ? close.code : 1000, close.reason.slice(0, 100));
      } catch {
        // It is dead already, and nobody listens to it any more.
      }
    }
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const { fail } of calls) {
      fail(new ConnectionLost('The connection to the host was lost before it answered'));
    }
    this.#listener.closed(close);
  }
}
