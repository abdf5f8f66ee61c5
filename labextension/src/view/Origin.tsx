import React from 'react';
import type { ChatOrigin, URI } from '../ahp';
import { type ChatRef, useWords } from './host';
import { Notice } from './Notice';
import { sessionOf, useSessions } from './sessions';
import { useChat, useSession } from './use';

type Made = Extract<ChatOrigin, { kind: 'fork' | 'sideChat' | 'tool' }>;

/** Where a chat came from, for one that was made from another or works for it: one line, with a link. */
export function Origin(props: {
  chat: URI;
  session: URI | undefined;
  open: ((chat: ChatRef) => void) | undefined;
}): React.ReactElement | null {
  const { chat, session, open } = props;
  const origin = useChat(chat, state => state?.origin);
  return origin?.kind === 'fork' || origin?.kind === 'sideChat' || origin?.kind === 'tool' ? (
    <Line origin={origin as Made} session={session} open={open} />
  ) : null;
}

function Line(props: {
  origin: Made;
  session: URI | undefined;
  open: ((chat: ChatRef) => void) | undefined;
}): React.ReactElement {
  const { origin, session, open } = props;
  const { t } = useWords();
  const list = useSessions();
  const here = useSession(
    session,
    state => state?.chats.find(each => each.resource === origin.chat)?.title
  );
  const elsewhere = sessionOf(list, origin.chat);
  const title =
    here ??
    list.items
      .find(summary => summary.resource === elsewhere)
      ?.chats?.find(each => each.resource === origin.chat)?.title;
  const known = here !== undefined ? session : elsewhere;
  const name = title || t('another chat');
  const link =
    open && known ? (
      <a
        href="#"
        onClick={event => {
          event.preventDefault();
          open({ chat: origin.chat, session: known });
        }}
      >
        <bdi>{name}</bdi>
      </a>
    ) : (
      <bdi>{name}</bdi>
    );
  const words = origin.kind === 'sideChat' ? origin.selection?.text : undefined;
  return (
    <Notice icon={origin.kind === 'fork' ? 'fork' : 'chat'}>
      {origin.kind === 'fork'
        ? t('Forked from')
        : origin.kind === 'tool'
          ? t('A worker of')
          : t('Side chat of')}{' '}
      {link}
      {words && (
        <>
          {', '}
          {t('about')}{' '}
          <q className="ahp-Quote" dir="auto">
            {words.length > 120 ? `${words.slice(0, 119)}…` : words}
          </q>
        </>
      )}
    </Notice>
  );
}
