/** What the connection needs of a transport: a browser's WebSocket has it, and so has a tunnel
 * through a Jupyter comm. One `send` is one text frame is one JSON-RPC message. */

export interface SocketLike {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  /** 1 when it is open already; a socket that does not say is open once it calls `onopen`. */
  readonly readyState?: number;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
}

/**
 * Makes the socket of one try. It is called anew at each try, so that address and token are
 * looked up again. A `HandshakeRefused` that it throws ends the tries; any other error is a
 * failed try.
 */
export type OpenSocket = () => SocketLike | Promise<SocketLike>;
