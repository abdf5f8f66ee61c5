import React, { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { SessionChatSummary, SessionSummary, URI } from '../ahp';
import { useIsOffline } from './connection';
import { ChatRow, iconOfAgent } from './ChatRow';
import { ChildRow } from './ChildRow';
import { FirstTime } from './FirstTime';
import { when } from './format';
import { useMay } from './grants';
import { useView } from './host';
import { Icon } from './Icon';
import { type Archived, useListActions } from './listActions';
import { MoveTo } from './MoveTo';
import { NewChat } from './NewChat';
import { OfflineStrip } from './OfflineStrip';
import {
  type GroupName,
  groups,
  isArchived,
  isUnread,
  matching,
  matchingChats,
  shownChats,
  useSessions
} from './sessions';
import { Strip } from './Strip';
import { useNow, useRoot, useSubscription } from './use';

/** How many rows of a group are drawn before the reader asks for the others. */
const PAGE = 200;

/** What the list changes, and says when it was not. */
const CHANGES: ReadonlySet<string> = new Set([
  'session/titleChanged',
  'session/isArchivedChanged',
  'chat/isArchivedChanged'
]);

type Filter = 'all' | 'unread' | 'archived';

export interface ChatsListProps {
  /** The session that is open beside the list. */
  current?: URI;
  /** Whether the choice of an agent is open. */
  choosing: boolean;
  onChoosing: (choosing: boolean) => void;
  /** Something that went wrong elsewhere and is to be said here. */
  problem?: string;
}

/** All chats of the host: what needs the reader first, then what runs, then the rest by day. */
export function ChatsList(props: ChatsListProps): React.ReactElement {
  const { current, choosing, onChoosing } = props;
  const { store, host } = useView();
  const { words, locale } = host;
  const { t, n } = words;
  useSubscription('ahp-root://');
  const list = useSessions();
  const agents = useRoot(state => state?.agents);
  const offline = useIsOffline();
  const now = useNow(true, 30_000);
  const [search, setSearch] = useState('');
  const [filter, setFilter] = useState<Filter>('all');
  const [shownOf, setShownOf] = useState<Partial<Record<GroupName, number>>>({});
  const [archived, setArchived] = useState<Archived>();
  const [folded, setFolded] = useState<ReadonlySet<URI>>(new Set());
  const may = useMay();
  const [problem, setProblem] = useState(props.problem);
  useEffect(() => setProblem(props.problem), [props.problem]);
  const [at, setAt] = useState<URI>();
  const root = useRef<HTMLElement>(null);

  useEffect(
    () =>
      store.onRefused(({ action, reason }) => {
        if (CHANGES.has(action.type)) {
          setProblem(t('Not changed: %1', reason));
        }
      }),
    [store, t]
  );

  const writes = may('session:write');
  const [moving, setMoving] = useState<{ chat: SessionChatSummary; session: SessionSummary }>();
  const askWhere = useCallback(
    (chat: SessionChatSummary, session: SessionSummary) => setMoving({ chat, session }),
    []
  );
  const { actions, childActions } = useListActions(may, setArchived, setProblem, askWhere);
  const stay = useFocusThatStays(root);

  const inFilter = useMemo(
    () =>
      list.items.filter(summary =>
        filter === 'archived'
          ? isArchived(summary)
          : !isArchived(summary) && (filter === 'all' || isUnread(summary))
      ),
    [list, filter]
  );
  const found = useMemo(
    () => matching(inFilter, search, filter === 'archived'),
    [inFilter, search, filter]
  );
  const today = new Date(now).toDateString();
  // the groups change with the day, not with the minute
  const shown = useMemo(() => groups(found, new Date(now)), [found, today]); // eslint-disable-line
  const unread = useMemo(
    () => list.items.filter(summary => isUnread(summary) && !isArchived(summary)).length,
    [list]
  );
  const names: Readonly<Record<GroupName, string>> = {
    needs: t('Needs you'),
    running: t('Running'),
    today: t('Today'),
    earlier: t('Earlier')
  };
  const agentName = useCallback(
    (provider: string) =>
      agents?.find(agent => agent.provider === provider)?.displayName ?? provider,
    [agents]
  );
  const reachable = found.some(summary => summary.resource === at)
    ? at
    : shown[0]?.items[0]?.resource;

  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') {
      return;
    }
    const rows = [...(root.current?.querySelectorAll<HTMLElement>('.ahp-Row-title') ?? [])];
    const here = (event.target as HTMLElement)
      .closest('.ahp-Row')
      ?.querySelector<HTMLElement>('.ahp-Row-title');
    const index = here ? rows.indexOf(here) : -1;
    const next = rows[index + (event.key === 'ArrowDown' ? 1 : -1)];
    if (next) {
      next.focus();
      event.preventDefault();
    }
  };

  const start = (provider: string): void => {
    onChoosing(false);
    host.newChat(provider);
  };
  const filters: readonly [Filter, string][] = [
    ['all', t('All')],
    ['unread', unread ? n('Unread %1', 'Unread %1', unread) : t('Unread')],
    ['archived', t('Archived')]
  ];
  const none =
    list.status === 'ready' && list.items.length === 0 && list.unreadable.length === 0 && writes;

  return (
    <nav ref={root} className="ahp ahp-List" aria-label={t('Chats')} onKeyDown={onKeyDown}>
      <div className="ahp-Head">
        <h1>{t('Chats')}</h1>
        {writes && (
          <button
            type="button"
            className="ahp-Btn is-small ahp-NewButton"
            aria-haspopup="dialog"
            aria-expanded={choosing}
            aria-disabled={!agents}
            onClick={() => {
              if (agents?.length === 1) {
                start(agents[0].provider);
              } else if (agents) {
                onChoosing(!choosing);
              }
            }}
          >
            <Icon name="plus" />
            {t('New')}
          </button>
        )}
      </div>
      {choosing && agents && (
        <NewChat agents={agents} onStart={start} onClose={() => onChoosing(false)} />
      )}
      {moving && (
        <MoveTo
          chat={moving.chat}
          sessions={list.items.filter(
            each =>
              each.provider === moving.session.provider &&
              each.resource !== moving.session.resource &&
              !isArchived(each)
          )}
          onMove={to => {
            setMoving(undefined);
            store
              .moveChat(moving.chat.resource, to, to && lastChat(list.items, to))
              .catch((error: Error) => setProblem(t('Not moved: %1', error.message)));
          }}
          onClose={() => setMoving(undefined)}
        />
      )}
      {offline && <OfflineStrip />}
      {problem && (
        <Strip
          icon="warn"
          tone="bad"
          role="alert"
          action={
            <button
              type="button"
              className="ahp-Btn is-small"
              onClick={() => setProblem(undefined)}
            >
              {t('Close')}
            </button>
          }
        >
          {problem}
        </Strip>
      )}
      {list.unreadable.map(({ id, path, reason }) => (
        <Strip
          key={id}
          icon="warn"
          tone="bad"
          role="alert"
          action={
            <button
              type="button"
              className="ahp-Btn is-small"
              onClick={() => void store.sessions.refresh()}
            >
              {t('Try again')}
            </button>
          }
        >
          <b>{t('One chat could not be read.')}</b>{' '}
          <span className="ahp-muted">
            {t('Nothing was written over it.')} {reason}
          </span>{' '}
          <span className="ahp-mono ahp-muted ahp-Path">{path}</span>
        </Strip>
      ))}
      {list.status === 'failed' && (
        <Strip
          icon="warn"
          tone="bad"
          role="alert"
          action={
            <button
              type="button"
              className="ahp-Btn is-small"
              onClick={() => void store.sessions.refresh()}
            >
              {t('Try again')}
            </button>
          }
        >
          <b>{t('The list of chats could not be read.')}</b>{' '}
          <span className="ahp-muted">{list.error?.message}</span>
        </Strip>
      )}
      {list.status === 'ready' && list.items.length === 0 && !writes && (
        <div className="ahp-Empty">
          <p>{t('There are no chats here.')}</p>
        </div>
      )}
      {none && agents ? (
        <FirstTime agents={agents} onStart={start} />
      ) : (
        list.items.length > 0 && (
          <>
            <div className="ahp-List-tools">
              <div className="ahp-Search">
                <Icon name="search" />
                <input
                  className="ahp-Field"
                  type="search"
                  aria-label={t('Search chats')}
                  placeholder={t('Search titles')}
                  value={search}
                  onChange={event => setSearch(event.target.value)}
                />
              </div>
              <div className="ahp-Filters" role="group" aria-label={t('Show')}>
                {filters.map(([name, label]) => (
                  <button
                    key={name}
                    type="button"
                    aria-pressed={filter === name}
                    onClick={() => setFilter(name)}
                  >
                    {label}
                  </button>
                ))}
              </div>
            </div>
            <div
              className="ahp-List-rows"
              onBlur={stay.onBlur}
              onFocus={event => {
                stay.onFocus(event);
                const row = (event.target as HTMLElement).closest<HTMLElement>('[data-session]');
                if (row) {
                  setAt(row.dataset.session);
                }
              }}
            >
              {shown.map(({ name, items }) => {
                const limit = shownOf[name] ?? PAGE;
                return (
                  <section key={name} className="ahp-Group" aria-label={names[name]}>
                    <h2>
                      {names[name]}{' '}
                      {(name === 'needs' || name === 'running') && <span>{items.length}</span>}
                    </h2>
                    <ul role="list">
                      {items.slice(0, limit).map(summary => {
                        const chats = shownChats(summary, filter === 'archived');
                        const several = chats.length > 1;
                        // what a search is for is never folded away
                        const searched = search.trim() !== '';
                        const open = several && (searched || !folded.has(summary.resource));
                        return (
                          <React.Fragment key={summary.resource}>
                            <ChatRow
                              summary={summary}
                              agent={agentName(summary.provider)}
                              time={when(
                                new Date(summary.modifiedAt),
                                new Date(now),
                                words,
                                locale
                              )}
                              current={summary.resource === current}
                              reachable={summary.resource === reachable}
                              actions={actions}
                              chats={
                                several
                                  ? {
                                      count: chats.length,
                                      shown: open,
                                      toggle: searched
                                        ? undefined
                                        : () => setFolded(toggled(folded, summary.resource))
                                    }
                                  : undefined
                              }
                            />
                            {open &&
                              matchingChats(summary, chats, search).map(chat => (
                                <ChildRow
                                  key={chat.resource}
                                  chat={chat}
                                  session={summary}
                                  icon={iconOfAgent(summary.provider)}
                                  time={
                                    chat.modifiedAt
                                      ? when(
                                          new Date(chat.modifiedAt),
                                          new Date(now),
                                          words,
                                          locale
                                        )
                                      : ''
                                  }
                                  current={false}
                                  beside={chats.map(({ resource }) => resource)}
                                  actions={childActions}
                                />
                              ))}
                          </React.Fragment>
                        );
                      })}
                    </ul>
                    {items.length > limit && (
                      <button
                        type="button"
                        className="ahp-Btn is-quiet ahp-More"
                        onClick={() => setShownOf({ ...shownOf, [name]: limit + PAGE })}
                      >
                        {n('Show %1 more', 'Show %1 more', Math.min(PAGE, items.length - limit))}
                      </button>
                    )}
                  </section>
                );
              })}
              {found.length === 0 && (
                <div className="ahp-Empty">
                  <p>
                    {search ? t('No chat has “%1”.', search) : t('Nothing here.')}{' '}
                    {search && filter !== 'archived' && t('Archived chats were not searched.')}
                  </p>
                  {search && filter !== 'archived' && (
                    <button
                      type="button"
                      className="ahp-Btn is-small"
                      onClick={() => setFilter('archived')}
                    >
                      {t('Search archived ones')}
                    </button>
                  )}
                </div>
              )}
            </div>
          </>
        )
      )}
      {archived && (
        <div className="ahp-List-undo">
          <Strip
            icon="archive"
            action={
              <button type="button" className="ahp-Btn is-small" onClick={archived.undo}>
                {t('Undo')}
              </button>
            }
          >
            {t('Archived “%1”.', archived.title || t('New chat'))}
          </Strip>
        </div>
      )}
    </nav>
  );
}

/** The chat at the end of a session: what is moved there stands behind it. */
function lastChat(items: readonly SessionSummary[], session: URI): URI | undefined {
  return items.find(({ resource }) => resource === session)?.chats?.at(-1)?.resource;
}

/** When the row with the focus goes, archived or deleted, the focus goes to the one in its place: never to the page. */
function useFocusThatStays(root: React.RefObject<HTMLElement>): {
  onFocus: (event: React.FocusEvent) => void;
  onBlur: () => void;
} {
  const had = useRef<{ row: HTMLElement; index: number }>();
  const rows = (): HTMLElement[] => [
    ...(root.current?.querySelectorAll<HTMLElement>('.ahp-Row') ?? [])
  ];
  useLayoutEffect(() => {
    const { activeElement, body } = document;
    if (!had.current || (activeElement && activeElement !== body)) {
      return;
    }
    // taken off the page, or put elsewhere on it, it lost the focus without a word
    const { row, index } = had.current;
    const left = rows();
    const next = row.isConnected ? row : left[Math.min(index, left.length - 1)];
    (
      next?.querySelector<HTMLElement>('.ahp-Row-title') ?? root.current?.querySelector('button')
    )?.focus();
  });
  return {
    onFocus: event => {
      const row = (event.target as HTMLElement).closest<HTMLElement>('.ahp-Row');
      had.current = row ? { row, index: rows().indexOf(row) } : undefined;
    },
    onBlur: () => (had.current = undefined)
  };
}

function toggled(folded: ReadonlySet<URI>, session: URI): ReadonlySet<URI> {
  const next = new Set(folded);
  if (!next.delete(session)) {
    next.add(session);
  }
  return next;
}
