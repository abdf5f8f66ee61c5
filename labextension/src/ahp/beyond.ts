/**
 * What jupyter-ahp's own host says beyond the protocol, in `_meta`: read here, and nowhere else in
 * this package's protocol half. Against another host none of it is there, and nothing of it is offered.
 */

import type { AhpAction } from './actions';
import { withKey } from './reducers/shared';
import type {
  ActiveTurn,
  AnyState,
  ChatState,
  InitializeResult,
  ListSessionsResult,
  Message,
  Meta,
  SystemNotificationPart,
  Turn,
  UsageInfo
} from './types';

const UNDO = 'jupyter-ahp.undo';
const STEERING = 'jupyter-ahp.steering';
const PENDING_ID = 'jupyter-ahp.pendingId';
const GRANTS = 'jupyter-ahp.grants';
const ROLE = 'jupyter-ahp.role';
const LIMIT = 'jupyter-ahp.attachmentLimit';
const MAX_MESSAGE = 'jupyter-ahp.maxMessageBytes';
const UPLOADS = 'jupyter-ahp.uploads';
const COST = 'jupyter-ahp.cost';
const UNREADABLE = 'jupyter-ahp.unreadable';

/** For the `_meta` of a change to what waits: the queue is tidied, and nothing starts for it. */
export const HOLD: Meta = { 'jupyter-ahp.hold': true };

/** Bytes for what is around the data in an answer. */
const ENVELOPE = 4096;

function record(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)
    : undefined;
}

/** How many turns the last rewind cut and can still bring back; 0 = none. */
export function undoable(state: ChatState | undefined): number {
  const turns = record(state?._meta?.[UNDO])?.['turns'];
  return typeof turns === 'number' ? turns : 0;
}

/**
 * The offer to undo a rewind, as the host's snapshots have it: made with the rewind, gone with the
 * next turn.
 */
export function withUndo(state: AnyState, action: AhpAction): AnyState {
  switch (action.type) {
    case 'chat/truncated':
      return withOffer(state as ChatState, action._meta?.[UNDO]);
    case 'chat/turnStarted':
    case 'chat/turnResume':
      return withOffer(state as ChatState, undefined);
    default:
      return state;
  }
}

function withOffer(state: ChatState, offer: unknown): ChatState {
  if (offer === undefined && state._meta?.[UNDO] === undefined) {
    return state;
  }
  const meta = withKey<Record<string, unknown>, string>({ ...state._meta }, UNDO, offer);
  return withKey(state, '_meta', Object.keys(meta).length ? meta : undefined);
}

/** The id under which a message waited before it became a turn or went into one. */
function pendingIdOf(message: Message): unknown {
  return message._meta?.[PENDING_ID];
}

/** The message of the chat that waited under that id, as it was said in the end; undefined if none did. */
export function saidAs(
  { turns, activeTurn }: Pick<ChatState, 'turns' | 'activeTurn'>,
  id: string
): Message | undefined {
  for (const turn of [...(turns ?? []), ...(activeTurn ? [activeTurn] : [])]) {
    for (const message of messagesIn(turn)) {
      if (pendingIdOf(message) === id) {
        return message;
      }
    }
  }
  return undefined;
}

/** What people said in a turn: what began it, and what went in while it ran. */
function messagesIn(turn: Turn | ActiveTurn): readonly Message[] {
  const steered = turn.responseParts.flatMap(part =>
    part.kind === 'systemNotification' ? (steeringOf(part) ?? []) : []
  );
  return [turn.message, ...steered];
}

/** For the `_meta` of a message that waited: under which id, so that it is known to have been said. */
export function waitedAs(id: string): Meta {
  return { [PENDING_ID]: id };
}

/** The message that the model read at this point of its turn; undefined for any other notice. */
export function steeringOf(part: SystemNotificationPart): Message | undefined {
  const said = record(part._meta?.[STEERING]);
  return typeof said?.['text'] === 'string' ? (said as unknown as Message) : undefined;
}

/** What a turn cost, where its agent says it. */
export function costOf(
  usage: UsageInfo | undefined
): { readonly amount: number; readonly currency: string } | undefined {
  const said = record(usage?._meta?.[COST]);
  const amount = said?.['amount'];
  const currency = said?.['currency'];
  return typeof amount === 'number' && typeof currency === 'string' && /^[A-Z]{3}$/.test(currency)
    ? { amount, currency }
    : undefined;
}

/** Whether an agent takes words while it works. */
export function takesSteering(agent: { readonly _meta?: Meta } | undefined): boolean {
  return agent?._meta?.[STEERING] === true;
}

/** What one may do (`chat:send`, …); undefined where the host does not say: then it refuses what one may not. */
export function grantsOf(host: InitializeResult | undefined): readonly string[] | undefined {
  const grants = host?._meta?.[GRANTS];
  return Array.isArray(grants)
    ? grants.filter((each): each is string => typeof each === 'string')
    : undefined;
}

/** What one is to the host (`guest`, …), in its word. */
export function roleOf(host: InitializeResult | undefined): string | undefined {
  const role = host?._meta?.[ROLE];
  return typeof role === 'string' ? role : undefined;
}

/**
 * The size in bytes over which the host reads no attachment from a client, or the answer would be more than it takes at
 * once, on which it closes the connection; 0 where there is none, or it does not say.
 */
export function offerLimit(host: InitializeResult | undefined): number {
  const limit = host?._meta?.[LIMIT];
  const message = host?._meta?.[MAX_MESSAGE];
  const limits = typeof limit === 'number' && limit > 0 ? [limit] : [];
  if (typeof message === 'number') {
    limits.push(Math.max(1, Math.floor((message - ENVELOPE) / 4) * 3)); // as base64
  }
  return limits.length ? Math.min(...limits) : 0;
}

/** The size in bytes over which nothing can be attached; 0 where there is none, or the host does not say. */
export function attachmentLimit(host: InitializeResult | undefined): number {
  const place = uploadPlace(host);
  return place ? place.maxBytes : offerLimit(host);
}

/** Where a client puts files ahead of the message that carries them. */
export interface UploadPlace {
  /** Ends with a slash. */
  readonly uri: string;
  readonly pieceBytes: number;
  /** Of all that waits there for its message; 0 where there is no limit. */
  readonly maxBytes: number;
}

export function uploadPlace(host: InitializeResult | undefined): UploadPlace | undefined {
  const { uri, pieceBytes, maxBytes = 0 } = record(host?._meta?.[UPLOADS]) ?? {};
  return typeof uri === 'string' && typeof pieceBytes === 'number' && pieceBytes > 0
    ? { uri, pieceBytes, maxBytes: typeof maxBytes === 'number' ? maxBytes : 0 }
    : undefined;
}

/** How large a message to the host may be, if it says. */
export function maxMessageBytes(host: InitializeResult | undefined): number | undefined {
  const most = host?._meta?.[MAX_MESSAGE];
  return typeof most === 'number' ? most : undefined;
}

/** A session that is there and could not be read. */
export interface Unreadable {
  readonly id: string;
  readonly path: string;
  readonly reason: string;
}

export function unreadableOf({ _meta }: ListSessionsResult): readonly Unreadable[] {
  const said = _meta?.[UNREADABLE];
  return (Array.isArray(said) ? said : []).flatMap(each => {
    const { id, path, reason } = record(each) ?? {};
    return typeof id === 'string'
      ? [{ id, path: String(path ?? ''), reason: String(reason ?? '') }]
      : [];
  });
}
