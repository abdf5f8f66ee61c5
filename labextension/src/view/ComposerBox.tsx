import React, { useRef, useState } from 'react';
import { type AgentInfo, type ChatState, type Message, Refused, type URI, Withdrawn } from '../ahp';
import { say, stop } from './actions';
import { unavailable } from './agents';
import { Chips } from './Chips';
import { useCompletion } from './completion';
import { Composer } from './Composer';
import { useIsOffline } from './connection';
import { useDraft } from './draft';
import { useView } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { ModelPicker } from './ModelPicker';
import { OfflineStrip } from './OfflineStrip';
import { senderOf } from './people';
import { Strip } from './Strip';
import { useChannel, useChat } from './use';

/** The first message of ours that has not left this page yet. */
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
  me: string | undefined;
  box: React.RefObject<HTMLTextAreaElement>;
  onSent: () => void;
  problem: string | undefined;
  onProblem: (problem: string | undefined) => void;
}

/** The composer with what stands above it: what is wrong, what waits, who else types. */
export function ComposerBox(props: Props): React.ReactElement {
  const { chat, agent, running, me, box, onSent, problem, onProblem } = props;
  const { store, host } = useView();
  const { t } = host.words;
  const offline = useIsOffline();
  const draft = useDraft(chat);
  const unsent = useUnsent(chat);
  const [chosen, setChosen] = useState<string>();
  const lastModel = useChat(
    chat,
    state => (state?.activeTurn ?? state?.turns[state.turns.length - 1])?.message.model?.id
  );
  const models = agent?.models ?? [];
  const model = [chosen, lastModel].find(id => id && models.some(each => each.id === id));
  const missing = agent && unavailable(agent);
  const stopping = useRef(false);

  const send = (): void => {
    const message = draft.take();
    onProblem(undefined);
    onSent();
    const what = { ...message, ...(model ? { model: { id: model } } : {}) };
    say(store, chat, what).catch((error: Error) => {
      if (error instanceof Withdrawn) {
        return;
      }
      const reason = error instanceof Refused ? error.reason : error.message;
      onProblem(t('Not sent: %1 Your text is kept.', sentence(reason)));
      draft.putBack(message);
    });
  };

  const onStop = (): void => {
    const turn = store.getState<ChatState>(chat)?.activeTurn;
    if (!turn || stopping.current) {
      return;
    }
    stopping.current = true;
    stop(store, chat, turn)
      .catch((error: Error) => onProblem(t('Not stopped: %1', sentence(error.message))))
      .finally(() => (stopping.current = false));
    box.current?.focus();
  };

  const takeBack = (edit: boolean): void => {
    if (unsent && store.withdraw(unsent.seq) && edit) {
      draft.putBack(unsent.message);
      box.current?.focus();
    }
  };

  const recall = (): void => {
    const turns = store.getState<ChatState>(chat)?.turns ?? [];
    const own = [...turns].reverse().find(turn => {
      const sender = senderOf(turn.message);
      return turn.message.origin.kind === 'user' && (!sender || !me || sender === me);
    });
    if (own) {
      draft.setMessage(own.message);
    }
  };

  const completion = useCompletion({
    chat,
    box,
    onText: draft.setText,
    onTake: draft.attach
  });
  const tray = offline || unsent || problem || draft.theirs || missing;
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
          {offline && <OfflineStrip />}
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
        onStop={onStop}
        onRecall={recall}
        completion={completion}
        chips={
          draft.attachments.length > 0 && (
            <Chips attachments={draft.attachments} onRemove={draft.detach} />
          )
        }
        running={running}
        offline={offline}
        blocked={
          unsent && t('One message waits for the connection. This one can be sent after it.')
        }
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

function sentence(text: string): string {
  const trimmed = text.trim();
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}
