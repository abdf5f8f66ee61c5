import React, { useState } from 'react';
import { flushSync } from 'react-dom';
import type { SessionSummary } from '../ahp';
import { isComposing } from './Composer';
import { useWords } from './host';
import { Icon, type IconName } from './Icon';
import { IconButton } from './IconButton';
import { Menu, type MenuItem } from './Menu';
import { activityOf, isArchived, isUnread } from './sessions';

const ICONS: Readonly<Record<string, IconName>> = {
  assistant: 'spark',
  bot: 'bot',
  claude: 'bot',
  echo: 'chat',
  pi: 'pi'
};

export function iconOfAgent(provider: string): IconName {
  return ICONS[provider] ?? 'terminal';
}

/** What can be done with a session; what is absent one may not do. */
export interface RowActions {
  open(summary: SessionSummary, area: 'main' | 'side'): void;
  rename?(summary: SessionSummary, title: string): void;
  read?(summary: SessionSummary, isRead: boolean): void;
  archive?(summary: SessionSummary, isArchived: boolean): void;
  remove?(summary: SessionSummary): void;
}

interface Props {
  summary: SessionSummary;
  agent: string;
  time: string;
  current: boolean;
  /** Whether this row is the one that Tab comes to. */
  reachable: boolean;
  actions: RowActions;
  /** How many chats are under it, when there are several, and whether they are shown; `toggle` where they can be folded. */
  chats?: { readonly count: number; readonly shown: boolean; readonly toggle?: () => void };
}

/** One chat of the list: what it is, and what it does now. */
export const ChatRow = React.memo(function ChatRow(props: Props): React.ReactElement {
  const { summary, agent, time, current, reachable, actions, chats } = props;
  const { t, n } = useWords();
  const { rename, read, archive, remove } = actions;
  const [menu, setMenu] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const activity = activityOf(summary.status);
  const unread = isUnread(summary) && activity !== 'running';
  const archived = isArchived(summary);
  const title = summary.title || t('New chat');

  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (!isRowKey(event)) {
      return;
    }
    switch (event.key) {
      case 'F2':
        setRenaming(rename !== undefined);
        break;
      case 'e':
      case 'E':
        archive?.(summary, !archived);
        break;
      case 'u':
      case 'U':
        read?.(summary, unread);
        break;
      case 'Delete':
        remove?.(summary);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const items: readonly MenuItem[] = [
    { label: t('Open in the main area'), icon: 'popout', run: () => actions.open(summary, 'main') },
    { label: t('Open in the side panel'), icon: 'chat', run: () => actions.open(summary, 'side') },
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
    ...(read
      ? [
          {
            label: unread ? t('Mark as read') : t('Mark as unread'),
            icon: 'bell',
            shortcut: 'U',
            run: () => read(summary, unread)
          } as const
        ]
      : []),
    ...(archive
      ? [
          {
            label: archived ? t('Take out of the archive') : t('Archive'),
            icon: 'archive',
            shortcut: 'E',
            run: () => archive(summary, !archived)
          } as const
        ]
      : []),
    ...(remove
      ? [
          {
            label: t('Delete…'),
            icon: 'cross',
            danger: true,
            run: () => remove(summary)
          } as const
        ]
      : [])
  ];

  const says =
    activity === 'input' ? (
      <>
        <Icon name="shield" className="ahp-warn" />
        <span className="ahp-clip ahp-warn">{t('Needs you')}</span>
      </>
    ) : activity === 'running' ? (
      <>
        <Icon name="spinner" />
        <span className="ahp-clip">{summary.activity || t('Working')}</span>
      </>
    ) : activity === 'error' ? (
      <>
        <Icon name="warn" className="ahp-bad" />
        <span className="ahp-clip ahp-bad">{t('Failed')}</span>
      </>
    ) : (
      <span className="ahp-clip">
        {chats ? n('%1 chat', '%1 chats', chats.count) : agent}
        {archived && `, ${t('archived')}`}
      </span>
    );

  return (
    <li
      className={unread ? 'ahp-Row is-unread' : 'ahp-Row'}
      aria-current={current ? 'page' : undefined}
      data-session={summary.resource}
      onKeyDown={onKeyDown}
    >
      {chats?.toggle ? (
        <IconButton
          icon={chats.shown ? 'down' : 'chevron'}
          className="ahp-Row-twist"
          label={
            chats.shown
              ? t('Hide the %1 chats of %2', chats.count, title)
              : t('Show the %1 chats of %2', chats.count, title)
          }
          aria-expanded={chats.shown}
          tabIndex={reachable ? 0 : -1}
          onClick={chats.toggle}
        />
      ) : (
        <Icon name={iconOfAgent(summary.provider)} label={agent} />
      )}
      {renaming ? (
        <RenameField
          title={summary.title}
          onDone={name => {
            setRenaming(false);
            if (name !== undefined) {
              rename?.(summary, name);
            }
          }}
        />
      ) : (
        <a
          href="#"
          className="ahp-clip ahp-Row-title"
          tabIndex={reachable ? 0 : -1}
          onClick={event => {
            event.preventDefault();
            actions.open(summary, event.ctrlKey || event.metaKey ? 'main' : 'side');
          }}
          onDoubleClick={() => actions.open(summary, 'main')}
        >
          {title}
          {unread && <span className="ahp-sr">, {t('unread')}</span>}
        </a>
      )}
      <time dateTime={summary.modifiedAt}>{time}</time>
      <div className="ahp-Row-sub">{says}</div>
      <span className="ahp-Row-tools">
        {archive && (
          <IconButton
            icon="archive"
            label={archived ? t('Take out of the archive') : t('Archive')}
            shortcut="E"
            tabIndex={-1}
            onClick={() => archive(summary, !archived)}
          />
        )}
        <IconButton
          icon="more"
          label={t('More')}
          aria-haspopup="menu"
          aria-expanded={menu}
          tabIndex={reachable ? 0 : -1}
          onClick={() => setMenu(!menu)}
        />
        {menu && <Menu label={title} items={items} onClose={() => setMenu(false)} />}
      </span>
    </li>
  );
});

/** Whether a key is the row's own: its buttons, its menu and its field have keys of their own. */
export function isRowKey(event: React.KeyboardEvent): boolean {
  const onTitle = (event.target as HTMLElement).matches('.ahp-Row-title');
  return onTitle && !event.ctrlKey && !event.metaKey && !event.altKey;
}

/** A title, while it is changed. */
export function RenameField(props: {
  title: string;
  /** The new one; nothing when it is left as it was. */
  onDone: (title: string | undefined) => void;
}): React.ReactElement {
  const { title, onDone } = props;
  const { t } = useWords();
  const commit = (value: string): void => {
    const name = value.trim();
    onDone(name && name !== title ? name : undefined);
  };
  /** By a key: the focus goes back to the row. */
  const leave = (event: React.KeyboardEvent, done: () => void): void => {
    const row = event.currentTarget.closest('.ahp-Row');
    event.preventDefault();
    flushSync(done);
    row?.querySelector<HTMLElement>('.ahp-Row-title')?.focus();
  };
  return (
    <input
      className="ahp-Field ahp-Row-rename"
      aria-label={t('Title')}
      defaultValue={title}
      autoFocus
      onFocus={event => event.target.select()}
      onBlur={event => commit(event.target.value)}
      onKeyDown={event => {
        event.stopPropagation();
        if (isComposing(event.nativeEvent)) {
          return;
        }
        if (event.key === 'Enter') {
          const { value } = event.currentTarget;
          leave(event, () => commit(value));
        } else if (event.key === 'Escape') {
          leave(event, () => onDone(undefined));
        }
      }}
    />
  );
}
