import { useMemo } from 'react';
import type { AhpAction, SessionChatSummary, SessionSummary, URI } from '../ahp';
import type { RowActions } from './ChatRow';
import type { ChildActions } from './ChildRow';
import type { May } from './grants';
import { useView } from './host';
import { firstChat } from './sessions';

/** What was archived last, and the way back. */
export interface Archived {
  readonly title: string;
  undo(): void;
}

/** What one may do with the sessions of a list, and with the chats in them. */
export function useListActions(
  may: May,
  onArchived: (archived: Archived | undefined) => void,
  onProblem: (problem: string) => void,
  onMove: (chat: SessionChatSummary, session: SessionSummary) => void
): { readonly actions: RowActions; readonly childActions: ChildActions } {
  const { store, host } = useView();
  const { t } = host.words;
  const writes = may('session:write');
  const marks = may('chat:mark');
  const disposes = may('chat:dispose');
  return useMemo(() => {
    const remove = (title: string, dispose: () => Promise<void>): void =>
      void host
        .confirm({
          title: t('Delete this chat?'),
          body: t(
            '“%1” and all that was said in it will be gone. This cannot be undone.',
            title || t('New chat')
          ),
          action: t('Delete')
        })
        .then(yes => (yes ? dispose() : undefined))
        .catch((error: Error) => onProblem(t('Not deleted: %1', error.message)));
    const archive = (
      channel: URI,
      type: 'session/isArchivedChanged' | 'chat/isArchivedChanged',
      title: string,
      isArchived: boolean
    ): void => {
      const set = (value: boolean): number =>
        store.dispatch(channel, { type, isArchived: value } satisfies AhpAction);
      set(isArchived);
      const undo = (): void => {
        set(false);
        onArchived(undefined);
      };
      onArchived(isArchived ? { title, undo } : undefined);
    };

    const actions: RowActions = {
      open: (summary, area) => {
        const chat = firstChat(summary);
        if (chat) {
          host.openChat({ chat, session: summary.resource }, area);
        } else {
          onProblem(t('This chat has no conversation that could be opened.'));
        }
      },
      ...(writes
        ? {
            rename: ({ resource }, title) =>
              store.dispatch(resource, { type: 'session/titleChanged', title }),
            read: ({ resource }, isRead) =>
              store.dispatch(resource, { type: 'session/isReadChanged', isRead }),
            archive: ({ resource, title }, isArchived) =>
              archive(resource, 'session/isArchivedChanged', title, isArchived),
            remove: ({ resource, title }) => remove(title, () => store.disposeSession(resource))
          }
        : {})
    };
    const childActions: ChildActions = {
      open: ({ resource: chat }, { resource: session }, area) =>
        host.openChat({ chat, session }, area),
      ...(writes
        ? {
            // on the channel of a chat it is the chat's own title
            rename: ({ resource }, title) =>
              store.dispatch(resource, { type: 'session/titleChanged', title }),
            order: ({ resource: chat }, { resource: session }, after) =>
              void store
                .moveChat(chat, session, after)
                .catch((error: Error) => onProblem(t('Not moved: %1', error.message))),
            move: onMove
          }
        : {}),
      ...(marks
        ? {
            archive: ({ resource, title }, isArchived) =>
              archive(resource, 'chat/isArchivedChanged', title, isArchived)
          }
        : {}),
      ...(disposes
        ? { remove: ({ resource, title }) => remove(title, () => store.disposeChat(resource)) }
        : {})
    };
    return { actions, childActions };
  }, [store, host, t, writes, marks, disposes, onArchived, onProblem, onMove]);
}
