/** JSON-RPC 2.0 as AHP frames it: one message a text frame, no batches (AHP 1.1). */

import { ErrorCode } from './errors';

export type Params = Record<string, unknown>;
export type RequestId = number | string;

export interface RpcErrorObject {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** What a frame turned out to be. `invalid` carries the error that answers it, and under which id. */
export type Incoming =
  | {
      readonly kind: 'request';
      readonly id: RequestId;
      readonly method: string;
      readonly params: Params;
    }
  | { readonly kind: 'notification'; readonly method: string; readonly params: Params }
  | {
      readonly kind: 'response';
      readonly id: RequestId | null;
      readonly result?: unknown;
      readonly error?: RpcErrorObject;
    }
  | {
      readonly kind: 'invalid';
      readonly id: RequestId | null;
      readonly code: number;
      readonly message: string;
    };

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function isId(value: unknown): value is RequestId {
  return typeof value === 'number' || typeof value === 'string';
}

function isErrorObject(value: unknown): value is RpcErrorObject & Record<string, unknown> {
  return isObject(value) && typeof value.code === 'number' && typeof value.message === 'string';
}

function invalid(code: number, message: string, id: RequestId | null = null): Incoming {
  return { kind: 'invalid', code, message, id };
}

function response(message: Record<string, unknown>): Incoming {
  const { id, error } = message;
  if ('result' in message && error === undefined && isId(id)) {
    return { kind: 'response', id, result: message.result };
  }
  if (!('result' in message) && isErrorObject(error) && (isId(id) || id === null)) {
    return { kind: 'response', id, error };
  }
  return invalid(ErrorCode.InvalidRequest, 'Not a JSON-RPC response');
}

/** Reads one frame as it came off the socket. */
export function parseFrame(frame: unknown): Incoming {
  if (typeof frame !== 'string') {
    return invalid(ErrorCode.InvalidRequest, 'A frame must be text');
  }
  let message: unknown;
  try {
    message = JSON.parse(frame);
  } catch {
    return invalid(ErrorCode.ParseError, 'The frame is not JSON');
  }
  if (!isObject(message)) {
    return invalid(ErrorCode.InvalidRequest, 'The frame is not a JSON-RPC message');
  }
  if (!('method' in message) && ('result' in message || 'error' in message)) {
    return response(message);
  }
  const { id, method, params } = message;
  const answerTo = isId(id) ? id : null;
  if (message.jsonrpc !== '2.0' || typeof method !== 'string' || method === '') {
    return invalid(ErrorCode.InvalidRequest, 'The frame is not a JSON-RPC 2.0 request', answerTo);
  }
  if ('id' in message && !isId(id)) {
    return invalid(ErrorCode.InvalidRequest, 'A request id must be a number or a string');
  }
  if (params != null && !isObject(params)) {
    return invalid(
      ErrorCode.InvalidParams,
      `The params of "${method}" must be an object`,
      answerTo
    );
  }
  return isId(id)
    ? { kind: 'request', id, method, params: params ?? {} }
    : { kind: 'notification', method, params: params ?? {} };
}

export function requestFrame(id: number, method: string, params: Params): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

export function notificationFrame(method: string, params: Params): string {
  return JSON.stringify({ jsonrpc: '2.0', method, params });
}

export function resultFrame(id: RequestId, result: unknown): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result: result ?? null });
}

export function errorFrame(id: RequestId | null, error: RpcErrorObject): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error });
}
