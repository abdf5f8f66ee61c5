import { useSyncExternalStore } from 'react';
import {
  type SessionChatSummary,
  type SessionList,
  type SessionSummary,
  Status,
  type URI
} from '../ahp';
import { isSameDay } from './format';
import { useView } from './host';

export function useSessions(): SessionList {
  const { sessions } = useView().store;
  return useSyncExternalStore(sessions.watch, sessions.getState);
}

/** The session that a chat is in, if the list knows it. */
export function sessionOf(list: SessionList, chat: URI): URI | undefined {
  return list.items.find(
    summary => summary.defaultChat === chat || summary.chats?.some(each => each.resource === chat)
  )?.resource;
}

export function useSessionOf(chat: URI, session: URI | undefined): URI | undefined {
  const { sessions } = useView().store;
  return useSyncExternalStore(
    sessions.watch,
    () => session ?? sessionOf(sessions.getState(), chat)
  );
}

/** The chat that a session opens with. */
export function firstChat(summary: SessionSummary): URI | undefined {
  return summary.defaultChat ?? summary.chats?.[0]?.resource;
}

/** The chats of a session that a reader is shown beside each other: not its workers, not what is hidden. */
export function shownChats(
  summary: SessionSummary,
  archived: boolean
): readonly SessionChatSummary[] {
  return (summary.chats ?? []).filter(
    ({ interactivity, origin, status }) =>
      interactivity !== 'hidden' &&
      origin?.kind !== 'tool' &&
      (archived || !isArchived({ status: status ?? 0 }))
  );
}

export type Activity = 'input' | 'running' | 'error' | 'idle';

export function activityOf(status: number): Activity {
  if ((status & Status.InputNeeded) === Status.InputNeeded) {
    return 'input';
  }
  return status & Status.InProgress ? 'running' : status & Status.Error ? 'error' : 'idle';
}

export function isUnread(summary: SessionSummary): boolean {
  return (summary.status & Status.IsRead) === 0;
}

export function isArchived(summary: Pick<SessionSummary, 'status'>): boolean {
  return (summary.status & Status.IsArchived) !== 0;
}

/** The sessions in which something waits for a person. */
export function needing(items: readonly SessionSummary[]): readonly SessionSummary[] {
  return items.filter(({ status }) => activityOf(status) === 'input');
}

/** The session in which something waits for a person behind that one, round about; the first without one. */
export function nextNeeding(
  items: readonly SessionSummary[],
  session: URI | undefined
): SessionSummary | undefined {
  const waiting = needing(items);
  const at = waiting.findIndex(({ resource }) => resource === session);
  return waiting[(at + 1) % waiting.length];
}

/** The chat of a session that waits for a person; else the one that opens. */
export function needingChat(summary: SessionSummary): URI | undefined {
  const chats = shownChats(summary, true);
  const waits = chats.find(({ status }) => activityOf(status ?? 0) === 'input');
  return waits?.resource ?? firstChat(summary);
}

export type GroupName = 'needs' | 'running' | 'today' | 'earlier';

export interface Group {
  readonly name: GroupName;
  readonly items: readonly SessionSummary[];
}

/** The list in its groups, in the order in which they want attention; empty groups are left out. */
export function groups(items: readonly SessionSummary[], now: Date): readonly Group[] {
  const found: Record<GroupName, SessionSummary[]> = {
    needs: [],
    running: [],
    today: [],
    earlier: []
  };
  for (const summary of items) {
    const activity = activityOf(summary.status);
    const group =
      activity === 'input'
        ? 'needs'
        : activity === 'running'
          ? 'running'
          : isSameDay(new Date(summary.modifiedAt), now)
            ? 'today'
            : 'earlier';
    found[group].push(summary);
  }
  return (['needs', 'running', 'today', 'earlier'] as const)
    .filter(name => found[name].length > 0)
    .map(name => ({ name, items: found[name] }));
}

/** Whether a title has all the words that are looked for, in any order and case. */
export function finds(search: string): (title: string) => boolean {
  const words = search.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  return title => {
    const lower = title.toLocaleLowerCase();
    return words.every(word => lower.includes(word));
  };
}

/** The sessions of which the title, or that of a chat which is shown under it, is looked for. */
export function matching(
  items: readonly SessionSummary[],
  search: string,
  archived = false
): readonly SessionSummary[] {
  const found = finds(search);
  return items.filter(
    summary =>
      found(summary.title) || shownChats(summary, archived).some(({ title }) => found(title))
  );
}

/** Of the chats under a session those that a search is for; all of them when it is for the session. */
export function matchingChats(
  summary: SessionSummary,
  chats: readonly SessionChatSummary[],
  search: string
): readonly SessionChatSummary[] {
  const found = finds(search);
  const own = chats.filter(({ title }) => found(title));
  return own.length ? own : found(summary.title) ? chats : own;
}
