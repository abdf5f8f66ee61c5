import React, { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { type AgentInfo, type ChatState, Status, type Turn, type URI } from '../ahp';
import { noteOf } from './agents';
import { Announcer } from './Announcer';
import { Canvases } from './Canvases';
import { ComposerBox, useUnsent } from './ComposerBox';
import { useCommandPrefix, useConnection, useIsOffline, useMe } from './connection';
import { type May, useMay, useRole } from './grants';
import { Head } from './Head';
import { type ChatRef, useView } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { isNextKey, toNextCard } from './needs';
import { NeedsYou } from './NeedsYou';
import { Origin } from './Origin';
import { PlaceContext } from './place';
import { Rewound } from './Rewound';
import { useSessionOf } from './sessions';
import { useStop } from './stopping';
import { Strip } from './Strip';
import { Transcript } from './Transcript';
import { useTurnActions } from './turnActions';
import { WaitingSeen } from './WaitingList';
import { useChannel, useChat, useRoot, useSession, useSubscription } from './use';

/** How many ended turns are asked for at first; older ones come as the reader goes up. */
const TURNS = 50;
const TWICE_MS = 600;
const PATIENCE_MS = 300;

export interface ChatViewProps {
  chat: URI;
  session?: URI;
  onBack?: () => void;
  /** Something to say under the head, such as that the chat goes through the kernel. */
  note?: string;
  /** More buttons for the head. */
  actions?: React.ReactNode;
  /** Whether the keys of a notebook around it must be kept off. */
  inNotebook?: boolean;
  /** Puts the cursor into the box once the chat is there. */
  autoFocus?: boolean;
  /** Opens a chat that was made from this one, or that this one was made from; absent where there is no place for it. */
  onOpen?: (chat: ChatRef) => void;
}

/** One chat: head, transcript, composer. The same in the panel, the main area and the widget. */
export function ChatView(props: ChatViewProps): React.ReactElement {
  const { chat, onBack, note, actions, inNotebook, autoFocus, onOpen } = props;
  const { store, host } = useView();
  const { t, n } = host.words;
  const session = useSessionOf(chat, props.session);
  useSubscription('ahp-root://');
  useSubscription(chat, { turns: TURNS });
  useSubscription(session);

  const status = useChannel<ChatState, string>(chat, view => (view.state ? 'here' : view.status));
  const failure = useChannel<ChatState, Error | undefined>(chat, view => view.error);
  const gone = useChannel<ChatState, boolean>(chat, view => view.status === 'missing');
  // a chat's title moves in its session's list of chats; its own state says what it was at the snapshot
  const listed = useSession(
    session,
    state => state?.chats.find(each => each.resource === chat)?.title
  );
  const chatTitle = useChat(chat, state => state?.title);
  const provider = useSession(session, state => state?.provider);
  const creation = useSession(session, state =>
    state?.lifecycle === 'failed' ? (state.creationError?.message ?? '') : undefined
  );
  const agent = useRoot(state => state?.agents.find(each => each.provider === provider));
  const active = useChat(chat, state => state?.activeTurn?.id);
  const background = useChat(chat, state => state?.backgroundWork?.length ?? 0);
  const closed = useChat(chat, state => (state?.interactivity ?? 'full') !== 'full');
  const may = useMay();
  const readOnly = closed || !may('chat:send');
  const connection = useConnection();
  const offline = useIsOffline();
  const unsent = useUnsent(chat);
  const me = useMe();
  const [problem, setProblem] = useState<string>();
  const toEnd = useRef<(() => void) | null>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const running = active !== undefined && active !== unsent?.turnId;

  const here = status === 'here';
  useEffect(() => {
    if (autoFocus && here) {
      box.current?.focus();
    }
  }, [autoFocus, here]);

  useEffect(
    () => (session && !readOnly ? host.attend?.(session) : undefined),
    [host, session, readOnly]
  );

  useMarkRead(chat, may('chat:mark') ? session : undefined, offline);

  const [finding, setFinding] = useState(false);
  const find = useCallback(() => setFinding(true), []);
  const [edited, setEdited] = useState<Turn>();
  /** The turns that were stopped here. */
  const stopped = useRef(new Set<string>());
  const stopping = useStop(chat, stopped.current, setProblem);
  const opener = useRef(onOpen);
  opener.current = onOpen;
  const canOpen = onOpen !== undefined;
  const open = useMemo(
    () => (canOpen ? (ref: ChatRef) => opener.current?.(ref) : undefined),
    [canOpen]
  );
  const place = useMemo(() => ({ session, open }), [session, open]);
  const scrollToEnd = useCallback(() => toEnd.current?.(), []);
  const turnActions = useTurnActions({
    chat,
    session,
    agent,
    may,
    readOnly,
    open,
    onEdit: setEdited,
    onProblem: setProblem,
    toEnd: scrollToEnd
  });

  // ── Esc Esc stops ──
  const escaped = useRef(0);
  const onKeyDown = (event: React.KeyboardEvent<HTMLElement>): void => {
    if (isNextKey(event.nativeEvent)) {
      event.preventDefault();
      event.stopPropagation();
      if (host.nextNeedsYou) {
        host.nextNeedsYou();
      } else {
        toNextCard(event.currentTarget);
      }
      return;
    }
    if (event.key !== 'Escape' || event.nativeEvent.isComposing) {
      return;
    }
    const turn = store.getState<ChatState>(chat)?.activeTurn;
    if (event.target === box.current) {
      // the first Escape leaves the box
      event.currentTarget.querySelector<HTMLElement>('[role="log"]')?.focus();
    }
    if (Date.now() - escaped.current < TWICE_MS && turn && running && may('chat:cancel')) {
      escaped.current = 0;
      stopping.stop();
    } else {
      escaped.current = Date.now();
    }
  };

  const title = (listed ?? chatTitle) || t('New chat');
  const state = offline
    ? connection.status === 'connecting'
      ? t('connecting')
      : t('no connection')
    : running
      ? t('working')
      : '';
  const behind = background
    ? n('%1 runs in the background', '%1 run in the background', background)
    : '';
  const line = [agent?.displayName ?? provider, state, behind].filter(Boolean).join(', ');
  return (
    <section
      className="ahp ahp-Chat"
      aria-label={t('Chat: %1', title)}
      onKeyDown={onKeyDown}
      {...(inNotebook ? { 'data-lm-suppress-shortcuts': 'true' } : {})}
    >
      <Head title={title} line={line} onBack={onBack}>
        {here && (
          <IconButton
            icon="search"
            label={t('Find in this chat')}
            shortcut="Ctrl F"
            aria-expanded={finding}
            onClick={() => setFinding(!finding)}
          />
        )}
        {actions}
      </Head>
      <div className="ahp-Under">
        {note && (
          <div className="ahp-Says" role="status">
            <Icon name="info" />
            <span>{note}</span>
          </div>
        )}
        {may('chat:answer') && <NeedsYou chat={chat} session={session} open={open} />}
        {creation !== undefined && (
          <Strip icon="warn" tone="bad" role="alert">
            <b>{t('This chat could not be started.')}</b> {creation}
          </Strip>
        )}
      </div>
      {here ? (
        <PlaceContext.Provider value={place}>
          <Transcript
            chat={chat}
            agent={agent?.displayName}
            me={me}
            readOnly={!may('chat:answer')}
            unsent={unsent?.turnId}
            actions={turnActions}
            top={<Origin chat={chat} session={session} open={open} />}
            tail={
              <>
                <Canvases chat={chat} />
                <Rewound chat={chat} may={may} onProblem={setProblem} />
              </>
            }
            endRef={toEnd}
            empty={readOnly ? null : <Beginning agent={agent} />}
            finding={finding}
            onFind={find}
            onFound={() => setFinding(false)}
          />
        </PlaceContext.Provider>
      ) : (
        <Opening status={status} error={failure} />
      )}
      <Announcer chat={chat} />
      <div className="ahp-Foot">
        {gone && here && (
          <Strip icon="info" role="note">
            <b>{t('This chat was deleted.')}</b> {t('What you see is what was here last.')}
          </Strip>
        )}
        {here && !gone && readOnly && (
          <>
            {problem && (
              <Strip icon="warn" tone="bad" role="alert">
                {problem}
              </Strip>
            )}
            <WaitingSeen chat={chat} running={running} me={me} />
            <ReadOnly
              worker={closed}
              provider={provider}
              may={may}
              stop={closed && running && may('chat:cancel') ? stopping.stop : undefined}
            />
          </>
        )}
        {here && !gone && !readOnly && (
          <ComposerBox
            chat={chat}
            agent={agent}
            running={running}
            may={may}
            me={me}
            stopped={stopped.current}
            stopping={stopping}
            edited={edited}
            onEdited={setEdited}
            box={box}
            onSent={scrollToEnd}
            problem={problem}
            onProblem={setProblem}
          />
        )}
      </div>
    </section>
  );
}

/** Where nothing was said yet: what to know of the agent, and what can be typed. */
function Beginning(props: { agent: AgentInfo | undefined }): React.ReactElement {
  const { t } = useView().host.words;
  const prefix = useCommandPrefix();
  const note = props.agent && noteOf(props.agent);
  const keys = prefix
    ? t('Type / for commands, @ or # for files and chats, %1 to run in a terminal.', prefix)
    : t('Type / for commands, @ or # for files and chats.');
  return (
    <p className="ahp-Beginning">
      {note && <span dir="auto">{note} </span>}
      {keys}
    </p>
  );
}

/** In the composer's place: why one cannot write here, and what one can do. */
function ReadOnly(props: {
  /** The chat is closed to everyone, as a worker's is. */
  worker: boolean;
  provider: string | undefined;
  may: May;
  /** Stops what runs in it. */
  stop: (() => void) | undefined;
}): React.ReactElement {
  const { worker, provider, may, stop } = props;
  const { host } = useView();
  const { t } = host.words;
  const role = useRole();
  return (
    <div className="ahp-Strip is-box" role="note">
      <Icon name="eye" className="ahp-muted" />
      <p>
        <b>{t('You can read this chat.')}</b>{' '}
        <span className="ahp-muted">
          {worker
            ? t('It is a worker’s. Write to the chat that it works for.')
            : role
              ? t('Your role here is %1. The owner can make you a member.', role)
              : t('The owner can make you a member.')}
        </span>
      </p>
      {stop && (
        <button type="button" className="ahp-Btn is-small" onClick={stop}>
          {t('Stop')}
        </button>
      )}
      {!worker && may('session:write') && (
        <button type="button" className="ahp-Btn is-small" onClick={() => host.newChat(provider)}>
          {t('New chat of my own')}
        </button>
      )}
    </div>
  );
}

/** What a reader has in front of them is read; said once for each turn, whatever the host makes of it. */
function useMarkRead(chat: URI, session: URI | undefined, offline: boolean): void {
  const { store } = useView();
  const unread = useChat(chat, state => {
    const idle = state && !state.activeTurn && (state.status & Status.IsRead) === 0;
    return idle ? (state.turns[state.turns.length - 1]?.id ?? '') : undefined;
  });
  const said = useRef<string>();
  useEffect(() => {
    if (unread === undefined || offline || !session) {
      return;
    }
    const mark = (): void => {
      if (document.visibilityState === 'visible' && said.current !== unread) {
        said.current = unread;
        store.dispatch(chat, { type: 'chat/isReadChanged', isRead: true });
        store.dispatch(session, { type: 'session/isReadChanged', isRead: true });
      }
    };
    mark();
    document.addEventListener('visibilitychange', mark);
    return () => document.removeEventListener('visibilitychange', mark);
  }, [unread, offline, session, chat, store]);
}

/** The chat is on its way, or is not there. */
function Opening(props: { status: string; error: Error | undefined }): React.ReactElement {
  const { store, host } = useView();
  const { t } = host.words;
  const connection = useConnection();
  const offline = useIsOffline();
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, []);
  const { status, error } = props;
  let content: React.ReactNode = null;
  if (status === 'missing') {
    content = <p>{t('This chat is not on this server any more.')}</p>;
  } else if (status === 'failed') {
    content = (
      <>
        <p>
          <b>{t('This chat could not be opened.')}</b> {error?.message}
        </p>
        <p className="ahp-muted">{t('Nothing was written over it.')}</p>
      </>
    );
  } else if (offline) {
    content = (
      <>
        <p>
          <b>{t('No connection to the server.')}</b> {connection.reason}
        </p>
        <button type="button" className="ahp-Btn" onClick={() => store.connection.retryNow()}>
          {t('Try now')}
        </button>
      </>
    );
  } else if (late) {
    content = (
      <p className="ahp-Opening">
        <Icon name="spinner" /> {t('Opening the chat')}
      </p>
    );
  }
  return (
    <div className="ahp-Empty" role="status">
      {content}
    </div>
  );
}
