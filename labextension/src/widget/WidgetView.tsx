import React, { useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { type AhpStore, type ChatState, type URI } from '../ahp';
import { ChatView, Context, useView, type ViewHost } from '../view';
import { Grip } from '../view/Grip';
import { IconButton } from '../view/IconButton';
import { useChannel, useSubscription } from '../view/use';

const SMALL = 240;

export interface WidgetProps {
  chat: URI;
  session: URI | undefined;
  /** In pixels, until somebody takes the grip. */
  height: number;
  /** Called with the height that somebody has chosen. */
  onHeight?: (height: number) => void;
  /** The transcript that was saved, as HTML that is safe to show. */
  saved: () => string;
  store: AhpStore;
  host: ViewHost;
  /** Whether it goes through the kernel, and waits while a cell runs. */
  throughKernel: boolean;
  /** Whether there are other places on this page for a chat. */
  inLab: boolean;
  /** Called when the host at the end of this way does not have the chat. */
  onMissing?: () => void;
}

/** A chat under a cell. */
export function WidgetView(props: WidgetProps): React.ReactElement {
  const { store, host } = props;
  const context = useMemo(() => ({ store, host }), [store, host]);
  return (
    <Context.Provider value={context}>
      <Framed {...props} />
    </Context.Provider>
  );
}

function Framed(props: WidgetProps): React.ReactElement {
  const { chat, session, height: kept, onHeight, saved, throughKernel, inLab, onMissing } = props;
  const { store, host } = useView();
  const { t } = host.words;
  const [height, setHeight] = useState(kept);
  useEffect(() => setHeight(kept), [kept]);

  // held here, too: a chat that nobody holds is forgotten, and with it that it is missing
  useSubscription(chat || undefined, { turns: 1 });
  const status = useChannel<ChatState, string>(chat || undefined, view => view.status);
  const here = useChannel<ChatState, boolean>(chat || undefined, view => view.state !== undefined);
  const connection = useSyncExternalStore(store.connection.watch, store.connection.getState);
  const missing = status === 'missing';
  useEffect(() => {
    if (missing) {
      onMissing?.();
    }
  }, [missing, onMissing]);

  const lost =
    !here &&
    (missing || connection.status === 'refused' || (connection.attempt > 1 && status !== 'live'));
  return (
    <div
      className={height < SMALL ? 'ahp ahp-Widget is-small' : 'ahp ahp-Widget'}
      style={{ height }}
    >
      {lost || !chat ? (
        <Saved html={saved} missing={missing} />
      ) : (
        <ChatView
          chat={chat}
          session={session}
          inNotebook
          onOpen={inLab ? opened => host.openChat(opened, 'side') : undefined}
          note={
            throughKernel ? t('Connected through the kernel: waits while a cell runs.') : undefined
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
        label={t('Widget height')}
        height={height}
        onHeight={setHeight}
        onDone={() => onHeight?.(height)}
      />
    </div>
  );
}

/** What was said and answered when the notebook was saved, where the chat cannot be reached. */
function Saved(props: { html: () => string; missing: boolean }): React.ReactElement {
  const { html, missing } = props;
  const { t } = useView().host.words;
  const safe = useMemo(html, [html]);
  return (
    <section className="ahp-Saved" aria-label={t('Saved chat')} tabIndex={0}>
      <p className="ahp-muted" role="status">
        {missing
          ? t('This chat is not on this server. Here is what the notebook has kept of it.')
          : t('No agent host here. To go on, run this cell where one is.')}
      </p>
      <div className="ahp-Md" dangerouslySetInnerHTML={{ __html: safe }} />
    </section>
  );
}
