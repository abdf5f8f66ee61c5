import React, { useState } from 'react';
import type { SessionSummary } from '../ahp';
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

export interface RowActions {
  open(summary: SessionSummary, area: 'main' | 'side'): void;
  rename(summary: SessionSummary, title: string): void;
  read(summary: SessionSummary, isRead: boolean): void;
  archive(summary: SessionSummary, isArchived: boolean): void;
  remove(summary: SessionSummary): void;
}

interface Props {
  summary: SessionSummary;
  agent: string;
  time: string;
  current: boolean;
  /** Whether this row is the one that Tab comes to. */
  reachable: boolean;
  actions: RowActions;
}

/** One chat of the list: what it is, and what it does now. */
export const ChatRow = React.memo(function ChatRow(props: Props): React.ReactElement {
  const { summary, agent, time, current, reachable, actions } = props;
  const { t } = useWords();
  const [menu, setMenu] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const activity = activityOf(summary.status);
  const unread = isUnread(summary) && activity !== 'running';
  const archived = isArchived(summary);
  const title = summary.title || t('New chat');

  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (renaming || menu || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    switch (event.key) {
      case 'F2':
        setRenaming(true);
        break;
      case 'e':
      case 'E':
        actions.archive(summary, !archived);
        break;
      case 'u':
      case 'U':
        actions.read(summary, unread);
        break;
      case 'Delete':
        actions.remove(summary);
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
    { label: t('Rename…'), icon: 'edit', shortcut: 'F2', run: () => setRenaming(true) },
    {
      label: unread ? t('Mark as read') : t('Mark as unread'),
      icon: 'bell',
      shortcut: 'U',
      run: () => actions.read(summary, unread)
    },
    {
      label: archived ? t('Take out of the archive') : t('Archive'),
      icon: 'archive',
      shortcut: 'E',
      run: () => actions.archive(summary, !archived)
    },
    { label: t('Delete…'), icon: 'cross', danger: true, run: () => actions.remove(summary) }
  ];

  const commit = (value: string): void => {
    setRenaming(false);
    const name = value.trim();
    if (name && name !== summary.title) {
      actions.rename(summary, name);
    }
  };

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
        {agent}
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
      <Icon name={ICONS[summary.provider] ?? 'terminal'} label={agent} />
      {renaming ? (
        <input
          className="ahp-Field ahp-Row-rename"
          aria-label={t('Title')}
          defaultValue={summary.title}
          autoFocus
          onFocus={event => event.target.select()}
          onBlur={event => commit(event.target.value)}
          onKeyDown={event => {
            event.stopPropagation();
            if (event.nativeEvent.isComposing) {
              return;
            }
            if (event.key === 'Enter') {
              commit(event.currentTarget.value);
            } else if (event.key === 'Escape') {
              setRenaming(false);
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
        <IconButton
          icon="archive"
          label={archived ? t('Take out of the archive') : t('Archive')}
          shortcut="E"
          tabIndex={-1}
          onClick={() => actions.archive(summary, !archived)}
        />
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
