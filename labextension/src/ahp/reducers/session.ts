/** The reducer of a session (AHP 3.2). */

import type { AhpAction } from '../actions';
import { Status, type Customization, type SessionState, type URI } from '../types';
import { replaceAt, upsert, withBit, withKey, withKeys, without } from './shared';

/**
 * Changes the first customization with that id: one at the top, else a child of one. A change that
 * returns its input leaves the session as it is.
 */
function withCustomization(
  state: SessionState,
  id: string,
  change: (entry: Customization) => Customization
): SessionState {
  const list = state.customizations ?? [];
  const top = list.findIndex(entry => entry.id === id);
  if (top >= 0) {
    const changed = replaceAt(list, top, change(list[top]!));
    return changed === list ? state : { ...state, customizations: changed };
  }
  for (const [index, container] of list.entries()) {
    const child = container.children?.findIndex(entry => entry.id === id) ?? -1;
    if (child >= 0) {
      const children = replaceAt(container.children!, child, change(container.children![child]!));
      return children === container.children
        ? state
        : { ...state, customizations: replaceAt(list, index, { ...container, children }) };
    }
  }
  return state;
}

function withoutCustomization(state: SessionState, id: string): SessionState {
  const list = state.customizations;
  const top = without(list, entry => entry.id === id);
  if (top !== list) {
    return { ...state, customizations: top };
  }
  const index = list?.findIndex(entry => entry.children?.some(child => child.id === id)) ?? -1;
  if (!list || index < 0) {
    return state;
  }
  const container = list[index]!;
  const children = without(container.children, child => child.id === id);
  return { ...state, customizations: replaceAt(list, index, { ...container, children }) };
}

function withMcpServer(
  state: SessionState,
  id: string,
  changes: Partial<Customization>
): SessionState {
  return withCustomization(state, id, entry =>
    entry.type === 'mcpServer' ? withKeys(entry, changes) : entry
  );
}

/** A call that a client runs by itself waits for nobody; every other entry waits for a person. */
function withInputStatus(state: SessionState): SessionState {
  const status = state.status ?? 0;
  const waiting = state.inputNeeded?.some(entry => entry.kind !== 'toolClientExecution') ?? false;
  return withKey(
    state,
    'status',
    waiting
      ? ((status & ~Status.ACTIVITY) | Status.InputNeeded) >>> 0
      : withBit(status, Status.InputNeeded & ~Status.InProgress, false)
  );
}

function replacedDirectory(
  list: readonly URI[] | undefined,
  directory: URI,
  replacement: URI
): readonly URI[] | undefined {
  const index = list?.indexOf(directory) ?? -1;
  if (!list || index < 0 || directory === replacement) {
    return list;
  }
  const earlier = list.indexOf(replacement);
  if (earlier >= 0 && earlier < index) {
    return list.filter((_, at) => at !== index);
  }
  return list.flatMap((entry, at) => {
    if (at === index) {
      return replacement;
    }
    return entry === replacement ? [] : entry;
  });
}

function reorderedChats(state: SessionState, order: readonly URI[]): SessionState {
  const chats = state.chats ?? [];
  const byUri = new Map(chats.map(chat => [chat.resource, chat]));
  const complete =
    order.length === chats.length &&
    new Set(order).size === order.length &&
    order.every(uri => byUri.has(uri));
  if (!complete || chats.every((chat, index) => chat.resource === order[index])) {
    return state;
  }
  return { ...state, chats: order.map(uri => byUri.get(uri)!) };
}

export function sessionReducer(state: SessionState, action: AhpAction): SessionState {
  switch (action.type) {
    case 'session/ready':
      return withKey(state, 'lifecycle', 'ready');
    case 'session/creationFailed':
      return withKeys(state, { lifecycle: 'failed', creationError: action.error });
    case 'session/chatAdded':
      return {
        ...state,
        chats: upsert(
          state.chats,
          action.summary,
          chat => chat.resource === action.summary.resource
        )
      };
    case 'session/chatRemoved': {
      const chats = without(state.chats, chat => chat.resource === action.chat);
      if (chats === state.chats) {
        return state;
      }
      const next = { ...state, chats };
      return state.defaultChat === action.chat ? withKey(next, 'defaultChat', undefined) : next;
    }
    case 'session/chatUpdated': {
      const index = state.chats?.findIndex(chat => chat.resource === action.chat) ?? -1;
      if (index < 0) {
        return state;
      }
      const { resource: _, ...changes } = action.changes;
      const chats = replaceAt(state.chats, index, withKeys(state.chats[index]!, changes));
      return withKey(state, 'chats', chats);
    }
    case 'session/chatsReordered':
      return reorderedChats(state, action.chats);
    case 'session/defaultChatChanged':
      return withKey(state, 'defaultChat', action.defaultChat);
    case 'session/titleChanged':
      return withKey(state, 'title', action.title);
    case 'session/isReadChanged':
      return withKey(state, 'status', withBit(state.status, Status.IsRead, action.isRead));
    case 'session/isArchivedChanged':
      return withKey(state, 'status', withBit(state.status, Status.IsArchived, action.isArchived));
    case 'session/activityChanged':
      return withKey(state, 'activity', action.activity);
    case 'session/changesetsChanged':
      return withKey(state, 'changesets', action.changesets);
    case 'session/configChanged': {
      if (!state.config) {
        return state;
      }
      const values = action.replace
        ? action.config
        : withKeys<Record<string, unknown>>(state.config.values ?? {}, action.config);
      return withKey(state, 'config', withKey(state.config, 'values', values));
    }
    case 'session/metaChanged':
      return withKey(state, '_meta', action._meta);
    case 'session/serverToolsChanged':
      return withKey(state, 'serverTools', action.tools);
    case 'session/activeClientSet':
      return {
        ...state,
        activeClients: upsert(
          state.activeClients,
          action.activeClient,
          client => client.clientId === action.activeClient.clientId
        )
      };
    case 'session/activeClientRemoved':
      return withKey(
        state,
        'activeClients',
        without(state.activeClients, client => client.clientId === action.clientId)
      );
    case 'session/workingDirectorySet':
      return state.workingDirectories?.includes(action.directory)
        ? state
        : { ...state, workingDirectories: [...(state.workingDirectories ?? []), action.directory] };
    case 'session/workingDirectoryRemoved':
      return withKey(
        state,
        'workingDirectories',
        without(state.workingDirectories, directory => directory === action.directory)
      );
    case 'session/workingDirectoryReplaced':
      return withKey(
        state,
        'workingDirectories',
        replacedDirectory(state.workingDirectories, action.directory, action.replacement)
      );
    case 'session/inputNeededSet':
      return withInputStatus({
        ...state,
        inputNeeded: upsert(
          state.inputNeeded,
          action.request,
          entry => entry.id === action.request.id
        )
      });
    case 'session/inputNeededRemoved': {
      const rest = without(state.inputNeeded, entry => entry.id === action.id);
      return rest === state.inputNeeded
        ? state
        : withInputStatus(withKey(state, 'inputNeeded', rest?.length ? rest : undefined));
    }
    case 'session/customizationsChanged':
      return withKey(state, 'customizations', action.customizations);
    case 'session/customizationToggled':
      return withCustomization(state, action.id, entry => {
        const enablement = action.enablement ?? [];
        return entry.type === 'plugin' || entry.type === 'mcpServer'
          ? withKey(entry, 'enablement', enablement.length ? enablement : undefined)
          : withKey(entry, 'enabled', enablement[0]?.enabled ?? true);
      });
    case 'session/customizationUpdated':
      return {
        ...state,
        customizations: upsert(
          state.customizations,
          action.customization,
          entry => entry.id === action.customization.id
        )
      };
    case 'session/customizationRemoved':
      return withoutCustomization(state, action.id);
    case 'session/mcpServerStateChanged':
      return withMcpServer(state, action.id, { state: action.state, channel: action.channel });
    case 'session/mcpServerStartRequested':
      return withMcpServer(state, action.id, { state: { kind: 'starting' }, channel: undefined });
    case 'session/mcpServerStopRequested':
      return withMcpServer(state, action.id, { state: { kind: 'stopped' }, channel: undefined });
    case 'session/mcpServerBackgroundRequested':
      return withCustomization(state, action.id, entry =>
        entry.type === 'mcpServer' &&
        entry.state?.kind === 'starting' &&
        entry.state.blocking === true
          ? { ...entry, state: { ...entry.state, blocking: false } }
          : entry
      );
    default:
      return state;
  }
}
