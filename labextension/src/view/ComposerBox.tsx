import React, { useEffect, useRef, useState } from 'react';
import {
  type AgentInfo,
  type Attachment,
  attachmentLimit,
  type ChatState,
  type Message,
  Refused,
  takesSteering,
  type Turn,
  type URI,
  uuid,
  Withdrawn
} from '../ahp';
import { resend, type Say, say } from './actions';
import { unavailable } from './agents';
import { Chips } from './Chips';
import { useCompletion } from './completion';
import { Composer } from './Composer';
import { useConnection, useIsOffline } from './connection';
import { useDraft } from './draft';
import { takeFiles } from './files';
import type { May } from './grants';
import { type Incoming, useView } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { ModelPicker } from './ModelPicker';
import { OfflineStrip } from './OfflineStrip';
import { senderOf } from './people';
import type { Stop } from './stopping';
import { Strip } from './Strip';
import { sentence } from './text';
import { useChannel, useChat } from './use';
import { type Edit, WaitingList } from './WaitingList';
import { isOwn, queue, steer, useUnread, useWaiting } from './waiting';

/** A turn of ours that has not left this page yet. */
export function useUnsent(
  chat: URI
): { seq: number; turnId: string; message: Message } | undefined {
  const pending = useChannel<ChatState, ReturnType<typeof find>>(chat, view => find(view.pending));
  if (pending?.action.type !== 'chat/turnStarted') {
    return undefined;
  }
  return { seq: pending.clientSeq, turnId: pending.action.turnId, message: pending.action.message };
}

type Pending = ReturnType<ReturnType<typeof useView>['store']['getChannel']>['pending'];

function find(pending: Pending): Pending[number] | undefined {
  return pending.find(each => !each.sent && each.action.type === 'chat/turnStarted');
}

interface Props {
  chat: URI;
  agent: AgentInfo | undefined;
  running: boolean;
  may: May;
  me: string | undefined;
  /** The turns that were stopped here; what is stopped in this box is put there. */
  stopped: Set<string>;
  stopping: Stop;
  /** The turn whose message is edited, to be sent again in its place. */
  edited: Turn | undefined;
  onEdited: (turn: Turn | undefined) => void;
  box: React.RefObject<HTMLTextAreaElement>;
  onSent: () => void;
  problem: string | undefined;
  onProblem: (problem: string | undefined) => void;
}

/** The composer with what stands above it: what is wrong, what is edited, what waits, who else types. */
export function ComposerBox(props: Props): React.ReactElement {
  const { chat, agent, running, may, me, stopped, stopping, edited, onEdited } = props;
  const { box, onSent, problem, onProblem } = props;
  const { store, host } = useView();
  const { t } = host.words;
  const offline = useIsOffline();
  const open = useConnection().status === 'open';
  const draft = useDraft(chat);
  const unsent = useUnsent(chat);
  const waiting = useWaiting(chat);
  const [edit, setEdit] = useState<Edit>();
  const [chosen, setChosen] = useState<string>();
  const lastModel = useChat(
    chat,
    state => (state?.activeTurn ?? state?.turns[state.turns.length - 1])?.message.model?.id
  );
  const models = agent?.models ?? [];
  const model = [chosen, lastModel].find(id => id && models.some(each => each.id === id));
  const missing = agent && unavailable(agent);
  const sentHere = useRef(new Set<string>());
  const toBox = (): void => box.current?.focus();
  const steerable = takesSteering(agent) && may('chat:send');
  const slotTaken = waiting.some(({ kind }) => kind === 'steering');

  useUnread(chat, waits => {
    if (isOwn(waits, me, sentHere.current)) {
      draft.putBack(waits.message);
    }
  });

  // ── what was said is edited, in the box ──
  const editedId = edited?.id;
  const kept = useRef<Pick<Message, 'text' | 'attachments'>>();
  useEffect(() => {
    if (edited) {
      kept.current ??= { text: draft.text, attachments: draft.attachments };
      draft.setMessage(edited.message);
      toBox();
    }
    // the turn alone says that another one is edited
  }, [editedId]); // eslint-disable-line
  const leaveEdited = (): void => {
    draft.setMessage(kept.current ?? { text: '' });
    kept.current = undefined;
    onEdited(undefined);
    toBox();
  };

  const tryTo = (deliver: (what: Say) => Promise<void>): void => {
    const message = draft.take();
    onProblem(undefined);
    onSent();
    deliver({ ...message, ...(model ? { model: { id: model } } : {}) }).then(
      () => message.attachments?.forEach(withdraw), // the host has a copy
      (error: Error) => {
        if (error instanceof Withdrawn) {
          return;
        }
        const reason = error instanceof Refused ? error.reason : error.message;
        onProblem(t('Not sent: %1 Your text is kept.', sentence(reason)));
        // it may have been changed while it waited
        draft.putBack((error instanceof Refused && changed(error)) || message);
      }
    );
  };

  // ── files ──
  const [taking, setTaking] = useState(0);
  const withdraw = (attachment: Attachment | undefined): void => {
    if (attachment?.type === 'resource') {
      store.offers.withdraw(attachment.uri);
    }
  };
  const onFiles = (files: readonly File[], refused: readonly string[] = []): void => {
    setTaking(count => count + files.length);
    void takeFiles(store, files, attachmentLimit(store.connection.host), host.words).then(taken => {
      setTaking(count => count - files.length);
      taken.attachments.forEach(attachment => draft.attach({ mark: '', attachment }));
      const problems = [...refused, ...taken.refused];
      onProblem(problems.length ? t('Not attached: %1', problems.join(' ')) : undefined);
      toBox();
    });
  };

  /** What waits for the connection waits in the queue: it goes in order, and is never in the way of another turn. */
  const deliver = (what: Say): Promise<void> => {
    if (!running && open) {
      return say(store, chat, what);
    }
    const id = uuid();
    sentHere.current.add(id);
    return queue(store, chat, what, id);
  };

  const send = (): void => {
    if (edited) {
      const turn = edited;
      const rest = kept.current;
      kept.current = undefined;
      onEdited(undefined);
      tryTo(what => resend(store, chat, turn, what));
      if (rest?.text) {
        draft.setMessage(rest);
      }
    } else {
      tryTo(deliver);
    }
  };

  // ── what comes from elsewhere on the page ──
  const incoming = useRef<(what: Incoming) => void>(() => undefined);
  incoming.current = ({ attachments = [], files = [], text, say: said }) => {
    attachments.forEach(attachment => draft.attach({ mark: '', attachment }));
    if (files.length) {
      onFiles(files);
    }
    if (text) {
      draft.setText(draft.text ? `${draft.text}\n${text}` : text);
    }
    if (said) {
      deliver({ text: said, ...(model ? { model: { id: model } } : {}) }).catch((error: Error) => {
        if (!(error instanceof Withdrawn)) {
          onProblem(t('Not sent: %1', sentence(error.message)));
        }
      });
      onSent();
    }
    toBox();
  };
  useEffect(() => host.receive?.(chat, what => incoming.current(what)), [host, chat]);

  const onSteer = (): void =>
    tryTo(what => {
      const id = uuid();
      sentHere.current.add(id);
      return steer(store, chat, what, id);
    });

  const onStop = (): void => {
    stopping.stop();
    toBox();
  };

  const takeBack = (again: boolean): void => {
    if (unsent && store.withdraw(unsent.seq) && again) {
      draft.putBack(unsent.message);
      toBox();
    }
  };

  /** ↑ in an empty box: what waits last is edited, else what was said last. */
  const recall = (): void => {
    const waits = waiting.filter(
      each => each.kind === 'queued' && isOwn(each, me, sentHere.current)
    );
    const last = waits.at(-1);
    if (last) {
      setEdit({ id: last.id, text: last.message.text });
      return;
    }
    const turns = store.getState<ChatState>(chat)?.turns ?? [];
    const own = [...turns].reverse().find(turn => {
      const sender = senderOf(turn.message);
      return turn.message.origin.kind === 'user' && (!sender || !me || sender === me);
    });
    if (own && !running && may('chat:truncate')) {
      onEdited(own);
    } else if (own) {
      draft.setMessage(own.message);
    }
  };

  const completion = useCompletion({
    chat,
    box,
    onText: draft.setText,
    onTake: draft.attach
  });
  const tray =
    taking > 0 ||
    offline ||
    unsent ||
    problem ||
    draft.theirs ||
    missing ||
    edited ||
    waiting.length > 0;
  return (
    <>
      {tray && (
        <div className="ahp-Tray">
          {problem && (
            <Strip
              icon="warn"
              tone="bad"
              role="alert"
              action={
                <IconButton icon="cross" label={t('Close')} onClick={() => onProblem(undefined)} />
              }
            >
              {problem}
            </Strip>
          )}
          {missing && (
            <Strip icon="warn" tone="warn">
              <b>{missing.reason}</b> <span className="ahp-muted">{missing.fix}</span>
            </Strip>
          )}
          {taking > 0 && (
            <Strip icon="spinner" role="status">
              {host.words.n('Attaching %1 file', 'Attaching %1 files', taking)}
            </Strip>
          )}
          {offline && <OfflineStrip />}
          {edited && <EditedStrip chat={chat} turn={edited} onLeave={leaveEdited} />}
          {unsent && (
            <ul role="list" aria-label={t('Waiting messages')}>
              <li className="ahp-Pend">
                <Icon name="clock" className="ahp-muted" />
                <span className="ahp-grow">
                  <span className="ahp-clip" dir="auto">
                    {unsent.message.text}
                  </span>
                  <small>{t('Goes when the connection is back')}</small>
                </span>
                <IconButton icon="edit" label={t('Edit')} onClick={() => takeBack(true)} />
                <IconButton icon="cross" label={t('Remove')} onClick={() => takeBack(false)} />
              </li>
            </ul>
          )}
          <WaitingList
            chat={chat}
            waiting={waiting}
            running={running}
            offline={offline}
            steerable={steerable}
            may={may}
            me={me}
            stopped={stopped}
            edit={edit}
            onEdit={setEdit}
            onLost={text => {
              draft.putBack({ text });
              onProblem(t('It does not wait any more. What you changed is in the box.'));
            }}
            onProblem={onProblem}
            onStop={turnId => stopped.add(turnId)}
            toBox={toBox}
          />
          {draft.theirs && (
            <div className="ahp-Strip">
              <span className="ahp-Presence" aria-hidden="true">
                {draft.theirs.name.slice(0, 1).toUpperCase()}
              </span>
              <p>
                <b>
                  <bdi>{draft.theirs.name}</bdi>
                </b>{' '}
                {t('is typing:')}{' '}
                <span className="ahp-muted" dir="auto">
                  {draft.theirs.text}
                </span>
              </p>
            </div>
          )}
        </div>
      )}
      <Composer
        ref={box}
        text={draft.text}
        onText={draft.setText}
        onSend={send}
        onSteer={steerable && !slotTaken ? onSteer : undefined}
        onStop={may('chat:cancel') ? onStop : undefined}
        stopping={stopping.stopping}
        onRecall={recall}
        onFiles={onFiles}
        onEscape={edited ? leaveEdited : undefined}
        completion={completion}
        chips={
          draft.attachments.length > 0 && (
            <Chips
              attachments={draft.attachments}
              onRemove={index => {
                const attachment = draft.attachments[index];
                if (attachment?.type === 'resource') {
                  store.detach(attachment.uri);
                }
                draft.detach(index);
              }}
            />
          )
        }
        running={running}
        offline={offline}
        editing={edited !== undefined}
        busy={taking > 0}
      >
        {agent && (
          <ModelPicker
            agent={agent.displayName}
            models={models}
            value={model}
            onChange={setChosen}
          />
        )}
      </Composer>
    </>
  );
}

/** The message that was refused, as it was sent. */
function changed({ action }: Refused): Message | undefined {
  return action.type === 'chat/pendingMessageSet' || action.type === 'chat/turnStarted'
    ? action.message
    : undefined;
}

/** Which message is edited, and what sending it does. */
function EditedStrip(props: { chat: URI; turn: Turn; onLeave: () => void }): React.ReactElement {
  const { chat, turn, onLeave } = props;
  const { t, n } = useView().host.words;
  const after = useChat(chat, state => {
    const at = state?.turns.findIndex(each => each.id === turn.id) ?? -1;
    return state && at >= 0 ? state.turns.length - 1 - at : 0;
  });
  return (
    <Strip
      icon="edit"
      action={
        <button type="button" className="ahp-Btn is-small" onClick={onLeave}>
          {t('Leave it')}
          <kbd className="ahp-Kbd" aria-hidden="true">
            Esc
          </kbd>
        </button>
      }
    >
      <b>{t('You edit what was said.')}</b>{' '}
      <span className="ahp-muted">
        {after > 0
          ? n(
              'Sending it drops that turn and the one after it.',
              'Sending it drops that turn and the %1 after it.',
              after
            )
          : t('Sending it drops that turn.')}{' '}
        {t('Files are not changed back.')}
      </span>
    </Strip>
  );
}
