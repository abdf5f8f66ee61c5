import React, { useMemo, useRef } from 'react';
import type { SessionInputRequest, SessionState, URI } from '../ahp';
import { type ChatRef, useWords } from './host';
import { Icon } from './Icon';
import { toNextCard } from './needs';
import { useSession } from './use';
import type { Words } from './words';

/** What waits for a person in a chat and its workers, at any depth. */
export function neededIn(
  chat: URI,
  chats: SessionState['chats'],
  needed: readonly SessionInputRequest[]
): readonly SessionInputRequest[] {
  const own = new Set([chat]);
  for (let grew = true; grew;) {
    const before = own.size;
    chats.forEach(({ resource, origin }) => {
      if (origin?.kind === 'tool' && 'chat' in origin && own.has(origin.chat)) {
        own.add(resource);
      }
    });
    grew = own.size > before;
  }
  return needed.filter(request => own.has(request.chat) && request.kind !== 'toolClientExecution');
}

function wordsFor(needed: readonly SessionInputRequest[], { n }: Words): string {
  const count = (kind: string): number => needed.filter(each => each.kind === kind).length;
  const calls = count('toolConfirmation');
  const questions = count('chatInput');
  const others = needed.length - calls - questions;
  return [
    calls && n('a call to allow', '%1 calls to allow', calls),
    questions && n('a question to answer', '%1 questions to answer', questions),
    others && n('a sign-in', '%1 sign-ins', others)
  ]
    .filter(Boolean)
    .join(', ');
}

const NONE: readonly never[] = [];

/** Every pending question of a chat and its workers, counted once, with the way to the next. */
export function NeedsYou(props: {
  chat: URI;
  session: URI | undefined;
  open: ((chat: ChatRef) => void) | undefined;
}): React.ReactElement | null {
  const { chat, session, open } = props;
  const words = useWords();
  const { t, n } = words;
  const root = useRef<HTMLDivElement>(null);
  const chats = useSession(session, state => state?.chats ?? NONE);
  const all = useSession(session, state => state?.inputNeeded ?? NONE);
  const needed = useMemo(() => neededIn(chat, chats, all), [chat, chats, all]);
  if (!needed.length) {
    return null;
  }
  const go = (): void => {
    const view = root.current?.closest<HTMLElement>('.ahp-Chat');
    if (view && toNextCard(view)) {
      return;
    }
    const elsewhere = needed.find(each => each.chat !== chat);
    if (elsewhere) {
      open?.({ chat: elsewhere.chat, session });
    }
  };
  return (
    <div ref={root} className="ahp-Needs" role="status">
      <Icon name="bell" />
      <span className="ahp-grow">
        <b>{n('%1 needs you', '%1 need you', needed.length)}</b>
        <span className="ahp-wide">: {wordsFor(needed, words)}</span>
      </span>
      <button type="button" className="ahp-Btn is-small" onClick={go}>
        {t('Go to next')}
        <kbd className="ahp-Kbd" aria-hidden="true">
          Alt N
        </kbd>
      </button>
    </div>
  );
}
