import type { AnyModel } from '@anywidget/types';
import React, { useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { type AhpStore, type ChatState } from '../ahp';
import { ChatView, Context, type ViewHost } from '../view';
import { IconButton } from '../view/IconButton';
import { Grip } from './Grip';
import { clean } from './pageHost';

const SMALL = 240;

/** A trait of the widget's Python side, followed. */
function useTrait<T>(model: AnyModel, name: string): T {
  const watch = useMemo(
    () => (listener: () => void) => {
      model.on(`change:${name}`, listener);
      return () => model.off(`change:${name}`, listener);
    },
    [model, name]
  );
  return useSyncExternalStore(watch, () => model.get(name) as T);
}

export interface WidgetProps {
  model: AnyModel;
  store: AhpStore;
  host: ViewHost;
  /** Whether it goes through the kernel, and waits while a cell runs. */
  throughKernel: boolean;
  /** Whether there are other places on this page for a chat. */
  inLab: boolean;
  /** Called when the host at the end of this way does not have the chat. */
  onMissing: () => void;
}

/** A chat under a cell. */
export function WidgetView(props: WidgetProps): React.ReactElement {
  const { model, store, host, throughKernel, inLab, onMissing } = props;
  const { t } = host.words;
  const chat = useTrait<string>(model, 'chat_uri');
  const session = useTrait<string>(model, 'session_uri') || undefined;
  const kept = useTrait<number>(model, 'height') || 400;
  const [height, setHeight] = useState(kept);
  useEffect(() => setHeight(kept), [kept]);
  const context = useMemo(() => ({ store, host }), [store, host]);

  const watchChat = useMemo(
    () => (listener: () => void) => (chat ? store.watch(chat, listener) : () => undefined),
    [store, chat]
  );
  const status = useSyncExternalStore(watchChat, () =>
    chat ? store.getChannel<ChatState>(chat).status : 'none'
  );
  const here = useSyncExternalStore(
    watchChat,
    () => !!chat && store.getState<ChatState>(chat) !== undefined
  );
  const connection = useSyncExternalStore(store.connection.watch, store.connection.getState);
  useEffect(() => {
    if (status === 'missing') {
      onMissing();
    }
  }, [status, onMissing]);

  const lost =
    !here &&
    (status === 'missing' ||
      connection.status === 'refused' ||
      (connection.attempt > 1 && status !== 'live'));
  return (
    <Context.Provider value={context}>
      <div
        className={height < SMALL ? 'ahp ahp-Widget is-small' : 'ahp ahp-Widget'}
        style={{ height }}
      >
        {lost || !chat ? (
          <Saved html={model.get('fallback') as string} host={host} />
        ) : (
          <ChatView
            chat={chat}
            session={session}
            inNotebook
            onOpen={inLab ? opened => host.openChat(opened, 'side') : undefined}
            note={
              throughKernel
                ? t('Connected through the kernel: waits while a cell runs.')
                : undefined
            }
            actions={
              inLab && (
                <IconButton
                  icon="popout"
                  label={t('Open in the side panel')}
                  onClick={() => host.openChat({ chat, session }, 'side')}
                />
              )
            }
          />
        )}
        <Grip
          height={height}
          onHeight={setHeight}
          onDone={() => {
            model.set('height', height);
            model.save_changes();
          }}
        />
      </div>
    </Context.Provider>
  );
}

/** What was said and answered when the notebook was saved, where no host can be reached. */
function Saved(props: { html: string; host: ViewHost }): React.ReactElement {
  const { t } = props.host.words;
  const html = useMemo(() => clean(props.html || ''), [props.html]);
  return (
    <section className="ahp-Saved" aria-label={t('Saved chat')} tabIndex={0}>
      <p className="ahp-muted" role="status">
        {t('No agent host here. To go on, run this cell where one is.')}
      </p>
      <div className="ahp-Md" dangerouslySetInnerHTML={{ __html: html }} />
    </section>
  );
}
