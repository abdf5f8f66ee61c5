import React, { useState } from 'react';
import type { SessionChatSummary, SessionSummary, URI } from '../ahp';
import { isRowKey, RenameField } from './ChatRow';
import { useWords } from './host';
import { Icon, type IconName } from './Icon';
import { IconButton } from './IconButton';
import { Menu, type MenuItem } from './Menu';
import { activityOf, isArchived } from './sessions';

/** What can be done with one chat of a session; what is absent one may not do. */
export interface ChildActions {
  open(chat: SessionChatSummary, session: SessionSummary, area: 'main' | 'side'): void;
  rename?(chat: SessionChatSummary, title: string): void;
  archive?(chat: SessionChatSummary, isArchived: boolean): void;
  remove?(chat: SessionChatSummary): void;
  /** Within its session, behind another one; to the front without one. */
  order?(chat: SessionChatSummary, session: SessionSummary, after: URI | undefined): void;
  /** To another session: asks which. */
  move?(chat: SessionChatSummary, session: SessionSummary): void;
}

interface Props {
  chat: SessionChatSummary;
  session: SessionSummary;
  icon: IconName;
  time: string;
  current: boolean;
  /** What is shown above and below it under the session, in order, itself among them. */
  beside: readonly URI[];
  actions: ChildActions;
}

/** One chat of several in a session. */
export const ChildRow = React.memo(function ChildRow(props: Props): React.ReactElement {
  const { chat, session, icon, time, current, beside, actions } = props;
  const { t } = useWords();
  const [menu, setMenu] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const title = chat.title || t('New chat');
  const activity = activityOf(chat.status ?? 0);
  const archived = isArchived({ status: chat.status ?? 0 });
  const { rename } = actions;
  // the session's own first chat is archived and deleted with the session
  const own = chat.resource !== session.defaultChat;
  const archive = own ? actions.archive : undefined;
  const remove = own ? actions.remove : undefined;
  const kind = chat.origin?.kind;
  const order = chat.movable ? actions.order : undefined;
  const move = chat.movable ? actions.move : undefined;
  const at = beside.indexOf(chat.resource);
  const up = at > 0 && order ? () => order(chat, session, beside[at - 2]) : undefined;
  const down =
    at < beside.length - 1 && order ? () => order(chat, session, beside[at + 1]) : undefined;

  const onKeyDown = (event: React.KeyboardEvent): void => {
    const places = event.key === 'ArrowUp' ? up : event.key === 'ArrowDown' ? down : undefined;
    if (event.altKey && places && (event.target as HTMLElement).matches('.ahp-Row-title')) {
      places();
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (!isRowKey(event)) {
      return;
    }
    if (event.key === 'F2') {
      setRenaming(rename !== undefined);
    } else if (event.key === 'e' || event.key === 'E') {
      archive?.(chat, !archived);
    } else if (event.key === 'Delete') {
      remove?.(chat);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const items: readonly MenuItem[] = [
    {
      label: t('Open in the main area'),
      icon: 'popout',
      run: () => actions.open(chat, session, 'main')
    },
    ...(rename
      ? [
          {
            label: t('Rename…'),
            icon: 'edit',
            shortcut: 'F2',
            run: () => setRenaming(true)
          } as const
        ]
      : []),
    ...(up ? [{ label: t('Move up'), icon: 'up', shortcut: t('Alt ↑'), run: up } as const] : []),
    ...(down
      ? [{ label: t('Move down'), icon: 'down', shortcut: t('Alt ↓'), run: down } as const]
      : []),
    ...(move
      ? [
          {
            label: t('Move to another session…'),
            icon: 'steer',
            run: () => move(chat, session)
          } as const
        ]
      : []),
    ...(archive
      ? [
          {
            label: archived ? t('Take out of the archive') : t('Archive'),
            icon: 'archive',
            shortcut: 'E',
            run: () => archive(chat, !archived)
          } as const
        ]
      : []),
    ...(remove
      ? [{ label: t('Delete…'), icon: 'cross', danger: true, run: () => remove(chat) } as const]
      : [])
  ];

  return (
    <li
      className="ahp-Row is-child"
      aria-current={current ? 'page' : undefined}
      data-chat={chat.resource}
      onKeyDown={onKeyDown}
    >
      <Icon
        name={kind === 'fork' ? 'fork' : kind === 'sideChat' ? 'chat' : icon}
        label={kind === 'fork' ? t('Fork') : kind === 'sideChat' ? t('Side chat') : t('Chat')}
      />
      {renaming ? (
        <RenameField
          title={chat.title}
          onDone={name => {
            setRenaming(false);
            if (name !== undefined) {
              rename?.(chat, name);
            }
          }}
        />
      ) : (
        <a
          href="#"
          className="ahp-clip ahp-Row-title"
          tabIndex={-1}
          onClick={event => {
            event.preventDefault();
            actions.open(chat, session, event.ctrlKey || event.metaKey ? 'main' : 'side');
          }}
          onDoubleClick={() => actions.open(chat, session, 'main')}
        >
          {title}
        </a>
      )}
      <span className="ahp-Row-state">
        {activity === 'input' && <Icon name="shield" className="ahp-warn" label={t('Needs you')} />}
        {activity === 'running' && <Icon name="spinner" label={t('Working')} />}
        {activity === 'error' && <Icon name="warn" className="ahp-bad" label={t('Failed')} />}
        {archived && <Icon name="archive" label={t('Archived')} />}
      </span>
      <time dateTime={chat.modifiedAt}>{time}</time>
      <span className="ahp-Row-tools">
        <IconButton
          icon="more"
          label={t('More for %1', title)}
          aria-haspopup="menu"
          aria-expanded={menu}
          tabIndex={-1}
          onClick={() => setMenu(!menu)}
        />
        {menu && <Menu label={title} items={items} onClose={() => setMenu(false)} />}
      </span>
    </li>
  );
});
