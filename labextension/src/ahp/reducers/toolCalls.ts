/**
 * One tool call through its states (AHP 4.5, 4.8). A transition rebuilds the call from its base
 * fields, so what belonged to the old state goes away unless it is carried over by name; an
 * action that does not fit the state changes nothing.
 */

import type { ToolCallAction } from '../actions';
import type {
  CancelledToolCall,
  ToolCallBase,
  ToolCallOption,
  ToolCallState,
  ToolContributor
} from '../types';
import { compact } from './shared';

type Of<T extends ToolCallAction['type']> = Extract<ToolCallAction, { type: T }>;

function base(call: ToolCallState, action: ToolCallAction): ToolCallBase {
  return {
    toolCallId: call.toolCallId,
    toolName: call.toolName,
    displayName: call.displayName,
    intention: call.intention,
    contributor: call.contributor,
    _meta: action._meta ?? call._meta
  };
}

/** Who runs a call is fixed when it starts: a client's stays that client's, and none becomes one. */
function refined(
  current: ToolContributor | undefined,
  given: ToolContributor | undefined
): ToolContributor | undefined {
  if (given == null) {
    return current;
  }
  if (current?.kind === 'client') {
    return given.kind === 'client' && given.clientId === current.clientId ? given : current;
  }
  return given.kind === 'client' ? current : given;
}

export function startedCall(action: Of<'chat/toolCallStart'>): ToolCallState {
  return compact({
    status: 'streaming',
    toolCallId: action.toolCallId,
    toolName: action.toolName,
    displayName: action.displayName,
    intention: action.intention,
    contributor: action.contributor,
    _meta: action._meta
  });
}

function ready(call: ToolCallState, action: Of<'chat/toolCallReady'>): ToolCallState {
  if (
    call.status !== 'streaming' &&
    call.status !== 'running' &&
    call.status !== 'pending-confirmation'
  ) {
    return call;
  }
  const common = {
    ...base(call, action),
    intention: action.intention ?? call.intention,
    contributor: refined(call.contributor, action.contributor),
    invocationMessage: action.invocationMessage,
    toolInput: action.toolInput ?? (call.status === 'streaming' ? undefined : call.toolInput)
  };
  if (action.confirmed != null) {
    return compact({ ...common, status: 'running', confirmed: action.confirmed });
  }
  const old = call.status === 'pending-confirmation' ? call : undefined;
  return compact({
    ...common,
    status: 'pending-confirmation',
    confirmationTitle: action.confirmationTitle ?? old?.confirmationTitle,
    riskAssessment: action.riskAssessment ?? old?.riskAssessment,
    edits: action.edits ?? old?.edits,
    editable: action.editable ?? old?.editable,
    options: action.options ?? old?.options
  });
}

function confirmed(call: ToolCallState, action: Of<'chat/toolCallConfirmed'>): ToolCallState {
  if (call.status !== 'pending-confirmation') {
    return call;
  }
  const selectedOption: ToolCallOption | undefined =
    action.selectedOptionId == null
      ? undefined
      : call.options?.find(option => option.id === action.selectedOptionId);
  const common = {
    ...base(call, action),
    invocationMessage: call.invocationMessage,
    toolInput: call.toolInput,
    selectedOption
  };
  if (action.approved) {
    // Input kept elsewhere is rewritten there by the host before it says this.
    const toolInput =
      action.editedToolInput != null && typeof call.toolInput === 'string'
        ? action.editedToolInput
        : call.toolInput;
    return compact({ ...common, status: 'running', toolInput, confirmed: action.confirmed });
  }
  return compact({
    ...common,
    status: 'cancelled',
    reason: action.reason,
    reasonMessage: action.reasonMessage,
    userSuggestion: action.userSuggestion
  });
}

function complete(call: ToolCallState, action: Of<'chat/toolCallComplete'>): ToolCallState {
  if (
    call.status !== 'running' &&
    call.status !== 'pending-confirmation' &&
    call.status !== 'auth-required'
  ) {
    return call;
  }
  if (call.status === 'auth-required' && action.result.success) {
    return call;
  }
  const decided =
    call.status === 'pending-confirmation'
      ? ({ confirmed: 'not-needed' } as const)
      : { confirmed: call.confirmed, selectedOption: call.selectedOption };
  const needsConfirmation =
    action.requiresResultConfirmation === true && call.status !== 'auth-required';
  return compact({
    ...base(call, action),
    invocationMessage: call.invocationMessage,
    toolInput: call.toolInput,
    ...decided,
    ...action.result,
    content: action.result.content ?? (call.status === 'auth-required' ? call.content : undefined),
    status: needsConfirmation ? 'pending-result-confirmation' : 'completed'
  });
}

function resultConfirmed(
  call: ToolCallState,
  action: Of<'chat/toolCallResultConfirmed'>
): ToolCallState {
  if (call.status !== 'pending-result-confirmation') {
    return call;
  }
  if (action.approved) {
    return compact({ ...call, ...base(call, action), status: 'completed' });
  }
  return compact({
    ...base(call, action),
    status: 'cancelled',
    invocationMessage: call.invocationMessage,
    toolInput: call.toolInput,
    reason: 'result-denied',
    selectedOption: call.selectedOption
  });
}

/** The call after the action; the very same object when the action does not apply to it. */
export function toolCallReducer(call: ToolCallState, action: ToolCallAction): ToolCallState {
  switch (action.type) {
    case 'chat/toolCallDelta':
      if (call.status !== 'streaming') {
        return call;
      }
      return compact({
        ...call,
        ...base(call, action),
        partialInput:
          action.content == null ? call.partialInput : (call.partialInput ?? '') + action.content,
        invocationMessage: action.invocationMessage ?? call.invocationMessage
      });
    case 'chat/toolCallReady':
      return ready(call, action);
    case 'chat/toolCallConfirmed':
      return confirmed(call, action);
    case 'chat/toolCallComplete':
      return complete(call, action);
    case 'chat/toolCallResultConfirmed':
      return resultConfirmed(call, action);
    case 'chat/toolCallContentChanged':
      return call.status === 'running'
        ? compact({ ...call, ...base(call, action), content: action.content })
        : call;
    case 'chat/toolCallAuthRequired':
      return call.status === 'running' && call.contributor?.kind === 'mcp'
        ? compact({ ...call, ...base(call, action), status: 'auth-required', auth: action.auth })
        : call;
    case 'chat/toolCallAuthResolved':
      return call.status === 'auth-required'
        ? compact({ ...call, ...base(call, action), status: 'running', auth: undefined })
        : call;
    default:
      return call;
  }
}

/** A call that its turn's end cuts off; one that had ended stays as it is. */
export function skippedCall(call: ToolCallState): ToolCallState {
  if (call.status === 'completed' || call.status === 'cancelled') {
    return call;
  }
  return compact<CancelledToolCall>({
    toolCallId: call.toolCallId,
    toolName: call.toolName,
    displayName: call.displayName,
    intention: call.intention,
    contributor: call.contributor,
    _meta: call._meta,
    status: 'cancelled',
    invocationMessage: call.invocationMessage ?? '',
    toolInput: call.status === 'streaming' ? undefined : call.toolInput,
    reason: 'skipped'
  });
}
