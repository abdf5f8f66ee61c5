/**
 * The reducer of a chat (AHP 4.6, 4.7). It reads no clock: `modifiedAt` moves when a turn starts
 * and when it ends, by what those actions say. A streamed delta makes a new part, a new list of the
 * running turn's parts and two objects around it; ended turns keep their identity.
 */

import type { AhpAction, ChatAction, ToolCallAction } from '../actions';
import {
  Status,
  type ActiveTurn,
  type ChatInputAnswers,
  type ChatState,
  type ErrorPart,
  type InputRequestPart,
  type PendingMessage,
  type ResponsePart,
  type Turn
} from '../types';
import { compact, replaceAt, upsert, withBit, withKey, withKeys, without } from './shared';
import { skippedCall, startedCall, toolCallReducer } from './toolCalls';

type Of<T extends ChatAction['type']> = Extract<ChatAction, { type: T }>;

const TURN_STATES = {
  'chat/turnComplete': 'complete',
  'chat/turnCancelled': 'cancelled',
  'chat/error': 'error'
} as const;

// --- status -----------------------------------------------------------------------------------

/** True when the turn cannot go on before a person or a sign-in answers. */
function isBlocked(part: ResponsePart): boolean {
  if (part.kind === 'inputRequest') {
    return part.response == null;
  }
  if (part.kind === 'toolCall') {
    const { status } = part.toolCall;
    return (
      status === 'pending-confirmation' ||
      status === 'pending-result-confirmation' ||
      status === 'auth-required'
    );
  }
  return false;
}

function withActivity(state: ChatState, activity: number): ChatState {
  return withKey(state, 'status', (((state.status ?? 0) & ~Status.ACTIVITY) | activity) >>> 0);
}

function refreshed(state: ChatState): ChatState {
  if (state.activeTurn == null) {
    return withActivity(state, Status.Idle);
  }
  const blocked = state.activeTurn.responseParts.some(isBlocked);
  return withActivity(state, blocked ? Status.InputNeeded : Status.InProgress);
}

function withFlag(state: ChatState, bit: number, on: boolean): ChatState {
  return withKey(state, 'status', withBit(state.status, bit, on));
}

// --- turns ------------------------------------------------------------------------------------

function activeTurnOf(state: ChatState, turnId: string): ActiveTurn | undefined {
  return state.activeTurn?.id === turnId ? state.activeTurn : undefined;
}

function withParts(state: ChatState, parts: readonly ResponsePart[]): ChatState {
  const turn = state.activeTurn!;
  return parts === turn.responseParts
    ? state
    : { ...state, activeTurn: { ...turn, responseParts: parts } };
}

function started(state: ChatState, action: Of<'chat/turnStarted'>): ChatState {
  const { turnId: id, startedAt, message, queuedMessageId } = action;
  let next: ChatState = {
    ...state,
    activeTurn: { id, startedAt, message, responseParts: [] },
    modifiedAt: startedAt
  };
  if (queuedMessageId != null) {
    if (next.steeringMessage?.id === queuedMessageId) {
      next = withKey(next, 'steeringMessage', undefined);
    }
    next = withQueue(
      next,
      without(next.queuedMessages, entry => entry.id === queuedMessageId)
    );
  }
  return withFlag(refreshed(next), Status.IsRead, false);
}

/** Stricter than `Date`, which takes what other languages do not: all must compute the same. */
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

function timestampAfter(startedAt: string, duration: number): string | undefined {
  const time = TIMESTAMP.test(startedAt) ? Date.parse(startedAt) + duration : NaN;
  return Number.isFinite(time) ? new Date(time).toISOString() : undefined;
}

function ended(
  state: ChatState,
  action: Of<'chat/turnComplete'> | Of<'chat/turnCancelled'> | Of<'chat/error'>,
  errorPart?: ErrorPart
): ChatState {
  const active = activeTurnOf(state, action.turnId);
  if (!active) {
    return state;
  }
  // A host that leaves it out must not make NaN of the turn's time.
  const duration = Math.max(0, action.duration ?? 0);
  const responseParts = active.responseParts.map(part => {
    if (part.kind !== 'toolCall') {
      return part;
    }
    const toolCall = skippedCall(part.toolCall);
    return toolCall === part.toolCall ? part : { ...part, toolCall };
  });
  if (errorPart != null) {
    responseParts.push(errorPart);
  }
  const turn: Turn = { ...active, duration, responseParts, state: TURN_STATES[action.type] };
  const { activeTurn: _, ...rest } = state;
  const next: ChatState = {
    ...rest,
    turns: [...(state.turns ?? []), turn],
    modifiedAt: timestampAfter(active.startedAt, duration) ?? state.modifiedAt
  };
  return withActivity(next, action.type === 'chat/error' ? Status.Error : Status.Idle);
}

function resumed(state: ChatState, turnId: string): ChatState {
  const last = state.turns?.at(-1);
  if (state.activeTurn != null || last?.id !== turnId || last.state !== 'error') {
    return state;
  }
  const lastPart = last.responseParts.at(-1);
  if (lastPart?.kind !== 'error' || lastPart.resumable !== true) {
    return state;
  }
  const { state: _state, duration: _duration, ...turn } = last;
  const next: ChatState = {
    ...state,
    turns: state.turns.slice(0, -1),
    activeTurn: { ...turn, startedAt: turn.startedAt ?? state.modifiedAt }
  };
  return withFlag(refreshed(next), Status.IsRead, false);
}

function truncated(state: ChatState, turnId: string | null | undefined): ChatState {
  let next = state;
  if (turnId == null) {
    next = withKeys(next, {
      turns: state.turns?.length === 0 ? state.turns : [],
      turnsNextCursor: undefined
    });
  } else {
    const index = state.turns?.findIndex(turn => turn.id === turnId) ?? -1;
    if (index < 0) {
      return state;
    }
    if (index < state.turns.length - 1) {
      next = { ...next, turns: state.turns.slice(0, index + 1) };
    }
  }
  return refreshed(withKey(next, 'activeTurn', undefined));
}

function loaded(state: ChatState, action: Of<'chat/turnsLoaded'>): ChatState {
  const known = new Set((state.turns ?? []).map(turn => turn.id));
  const older = action.turns.filter(turn => !known.has(turn.id));
  return withKeys(state, {
    turns: older.length > 0 ? [...older, ...(state.turns ?? [])] : state.turns,
    turnsNextCursor: action.turnsNextCursor
  });
}

// --- parts ------------------------------------------------------------------------------------

function partId(part: ResponsePart): unknown {
  return part.kind === 'toolCall' ? part.toolCall.toolCallId : (part as { id?: unknown }).id;
}

function appended(state: ChatState, turnId: string, part: ResponsePart): ChatState {
  const turn = activeTurnOf(state, turnId);
  return turn ? withParts(state, [...turn.responseParts, part]) : state;
}

function streamed(
  state: ChatState,
  action: Of<'chat/delta'> | Of<'chat/reasoning'>,
  kind: 'markdown' | 'reasoning'
): ChatState {
  const parts = activeTurnOf(state, action.turnId)?.responseParts;
  const index = parts?.findIndex(part => partId(part) === action.partId) ?? -1;
  const part = parts?.[index];
  if (!parts || part?.kind !== kind || action.content === '') {
    return state;
  }
  return withParts(
    state,
    replaceAt(parts, index, { ...part, content: part.content + action.content })
  );
}

function withToolCall(state: ChatState, action: ToolCallAction): ChatState {
  const parts = activeTurnOf(state, action.turnId)?.responseParts;
  const index =
    parts?.findIndex(
      part => part.kind === 'toolCall' && part.toolCall.toolCallId === action.toolCallId
    ) ?? -1;
  const part = parts?.[index];
  if (!parts || part?.kind !== 'toolCall') {
    return state;
  }
  const toolCall = toolCallReducer(part.toolCall, action);
  return toolCall === part.toolCall
    ? state
    : withParts(state, replaceAt(parts, index, { ...part, toolCall }));
}

// --- questions --------------------------------------------------------------------------------

function withOpenRequest(
  state: ChatState,
  requestId: string,
  change: (part: InputRequestPart) => InputRequestPart
): ChatState {
  const parts = state.activeTurn?.responseParts;
  const index =
    parts?.findIndex(
      part => part.kind === 'inputRequest' && part.response == null && part.request.id === requestId
    ) ?? -1;
  return parts && index >= 0
    ? withParts(state, replaceAt(parts, index, change(parts[index] as InputRequestPart)))
    : state;
}

function requested(state: ChatState, { request }: Of<'chat/inputRequested'>): ChatState {
  if (state.activeTurn == null) {
    return state;
  }
  let next = withOpenRequest(state, request.id, part => ({
    ...part,
    request: withKey(request, 'answers', request.answers ?? part.request.answers)
  }));
  if (next === state) {
    next = withParts(state, [...state.activeTurn.responseParts, { kind: 'inputRequest', request }]);
  }
  return withFlag(refreshed(next), Status.IsRead, false);
}

function answered(state: ChatState, action: Of<'chat/inputAnswerChanged'>): ChatState {
  return withOpenRequest(state, action.requestId, part => {
    const answers = withKey<Record<string, unknown>, string>(
      { ...part.request.answers },
      action.questionId,
      action.answer
    ) as ChatInputAnswers;
    const none = Object.keys(answers).length === 0;
    if (none && part.request.answers == null) {
      return part;
    }
    return { ...part, request: withKey(part.request, 'answers', none ? undefined : answers) };
  });
}

function completed(state: ChatState, action: Of<'chat/inputCompleted'>): ChatState {
  const next = withOpenRequest(state, action.requestId, part => ({
    ...part,
    response: action.response,
    request:
      action.answers == null
        ? part.request
        : { ...part.request, answers: { ...part.request.answers, ...action.answers } }
  }));
  return next === state ? state : refreshed(next);
}

// --- messages that wait -----------------------------------------------------------------------

function withQueue(state: ChatState, queue: readonly PendingMessage[] | undefined): ChatState {
  return withKey(state, 'queuedMessages', queue?.length ? queue : undefined);
}

function pendingSet(state: ChatState, action: Of<'chat/pendingMessageSet'>): ChatState {
  const pending: PendingMessage = { id: action.id, message: action.message };
  return action.kind === 'steering'
    ? withKey(state, 'steeringMessage', pending)
    : withQueue(
        state,
        upsert(state.queuedMessages, pending, entry => entry.id === pending.id)
      );
}

function pendingRemoved(
  state: ChatState,
  { kind, id }: Of<'chat/pendingMessageRemoved'>
): ChatState {
  if (kind === 'steering') {
    return state.steeringMessage?.id === id ? withKey(state, 'steeringMessage', undefined) : state;
  }
  return withQueue(
    state,
    without(state.queuedMessages, entry => entry.id === id)
  );
}

function reordered(state: ChatState, order: readonly string[]): ChatState {
  const queue = state.queuedMessages;
  if (!queue) {
    return state;
  }
  const byId = new Map(queue.map(entry => [entry.id, entry]));
  const named = [...new Set(order)].flatMap(id => byId.get(id) ?? []);
  const next = [...named, ...queue.filter(entry => !named.includes(entry))];
  return next.every((entry, index) => entry === queue[index]) ? state : withQueue(state, next);
}

// --- the reducer ------------------------------------------------------------------------------

export function chatReducer(state: ChatState, action: AhpAction): ChatState {
  switch (action.type) {
    case 'chat/turnStarted':
      return started(state, action);
    case 'chat/delta':
      return streamed(state, action, 'markdown');
    case 'chat/reasoning':
      return streamed(state, action, 'reasoning');
    case 'chat/responsePart':
      // An error part comes with the end of its turn alone.
      return action.part.kind === 'error' ? state : appended(state, action.turnId, action.part);
    case 'chat/toolCallStart':
      return appended(state, action.turnId, { kind: 'toolCall', toolCall: startedCall(action) });
    case 'chat/toolCallDelta':
    case 'chat/toolCallContentChanged':
      return withToolCall(state, action);
    case 'chat/toolCallReady':
    case 'chat/toolCallConfirmed':
    case 'chat/toolCallComplete':
    case 'chat/toolCallResultConfirmed':
    case 'chat/toolCallAuthRequired':
    case 'chat/toolCallAuthResolved':
      // The status is recomputed even when the call was not found (AHP 4.6 rule 3).
      return refreshed(withToolCall(state, action));
    case 'chat/turnComplete':
    case 'chat/turnCancelled':
      return ended(state, action);
    case 'chat/error':
      return ended(state, action, action.part);
    case 'chat/turnResume':
      return resumed(state, action.turnId);
    case 'chat/activityChanged':
      return withKey(state, 'activity', action.activity);
    case 'chat/backgroundWorkSet':
      return {
        ...state,
        backgroundWork: upsert(
          state.backgroundWork,
          action.work,
          work => work.id === action.work.id
        )
      };
    case 'chat/backgroundWorkRemoved':
      return withKey(
        state,
        'backgroundWork',
        without(state.backgroundWork, work => work.id === action.id)
      );
    case 'chat/movableChanged':
      return withKey(state, 'movable', action.movable);
    case 'chat/changesetsChanged':
      return withKey(state, 'changesets', action.changesets);
    case 'chat/canvasesChanged':
      return withKey(state, 'canvases', action.canvases);
    case 'chat/workingDirectorySet':
      return state.workingDirectories?.includes(action.directory)
        ? state
        : { ...state, workingDirectories: [...(state.workingDirectories ?? []), action.directory] };
    case 'chat/workingDirectoryRemoved':
      return withKey(
        state,
        'workingDirectories',
        without(state.workingDirectories, directory => directory === action.directory)
      );
    case 'chat/usage': {
      const turn = activeTurnOf(state, action.turnId);
      return turn ? { ...state, activeTurn: compact({ ...turn, usage: action.usage }) } : state;
    }
    case 'chat/pendingMessageSet':
      return pendingSet(state, action);
    case 'chat/pendingMessageRemoved':
      return pendingRemoved(state, action);
    case 'chat/queuedMessagesReordered':
      return reordered(state, action.order);
    case 'chat/draftChanged':
      return withKey(state, 'draft', action.draft);
    case 'chat/isReadChanged':
      return withFlag(state, Status.IsRead, action.isRead);
    case 'chat/isArchivedChanged':
      return withFlag(state, Status.IsArchived, action.isArchived);
    case 'chat/inputRequested':
      return requested(state, action);
    case 'chat/inputAnswerChanged':
      return answered(state, action);
    case 'chat/inputCompleted':
      return completed(state, action);
    case 'chat/truncated':
      return truncated(state, action.turnId);
    case 'chat/turnsLoaded':
      return loaded(state, action);
    default:
      return state;
  }
}
