/** Error codes of AHP 1.3, and the exceptions that this package throws. */

import type { AhpAction } from './actions';

export const ErrorCode = {
  ParseError: -32700,
  InvalidRequest: -32600,
  MethodNotFound: -32601,
  InvalidParams: -32602,
  InternalError: -32603,
  SessionNotFound: -32001,
  ProviderNotFound: -32002,
  SessionAlreadyExists: -32003,
  TurnInProgress: -32004,
  UnsupportedProtocolVersion: -32005,
  AuthRequired: -32007,
  NotFound: -32008,
  PermissionDenied: -32009,
  AlreadyExists: -32010,
  Conflict: -32011
} as const;

/** A request was answered with an error. `code` is one of `ErrorCode`, or the host's own. */
export class RpcError extends Error {
  override readonly name = 'RpcError';
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown
  ) {
    super(message);
  }
}

/** There is no connection, or it went away before the answer came: the request may have been carried out. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

/** The host will not have this client; trying again by itself would not help. */
export class HandshakeRefused extends Error {
  override readonly name = 'HandshakeRefused';
}

/** The host refused an action (`rejectionReason`), or its channel is gone. Nothing of it remains. */
export class Refused extends Error {
  override readonly name = 'Refused';
  constructor(
    readonly reason: string,
    readonly channel: string,
    readonly action: AhpAction
  ) {
    super(reason);
  }
}

/** The caller took the action back before it was sent. */
export class Withdrawn extends Error {
  override readonly name = 'Withdrawn';
}

/** True when the error says that a channel or resource is not there. */
export function isNotFound(error: unknown): boolean {
  return (
    error instanceof RpcError &&
    (error.code === ErrorCode.SessionNotFound || error.code === ErrorCode.NotFound)
  );
}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
