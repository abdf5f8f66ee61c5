import { useCallback, useEffect, useRef, useState } from 'react';
import type { ChatState, Message, URI } from '../ahp';
import { messageOf } from './actions';
import { useConnection, useMe } from './connection';
import { useView } from './host';
import { nameOf, senderOf } from './people';
import { useChat } from './use';

const SETTLE_MS = 400;

export interface Draft {
  readonly text: string;
  setText(text: string): void;
  /** Takes the text out of the box, for sending. The shared draft goes with it. */
  take(): string;
  /** Another person's draft, which stands above the box and never in it. */
  readonly theirs?: { readonly name: string; readonly text: string };
}

function isMine(draft: Message | undefined, me: string | undefined): boolean {
  const sender = senderOf(draft);
  return !sender || sender === me;
}

/**
 * The text in the box, shared with the chat's other readers through the host's one draft. It starts from a draft of
 * one's own, follows it while the box holds nothing newer, and never takes over another person's.
 */
export function useDraft(chat: URI): Draft {
  const { store } = useView();
  const me = useMe();
  const shared = useChat(chat, state => state?.draft);
  const loaded = useChat(chat, state => state !== undefined);
  const [text, setShown] = useState('');
  const latest = useRef('');
  /** What the host was told last, or said last of our own. */
  const known = useRef<string>();
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const open = useConnection().status === 'open';
  const online = useRef(open);
  online.current = open;

  const mine = isMine(shared, me);
  const sharedText = mine ? (shared?.text ?? '') : '';
  useEffect(() => {
    if (!loaded) {
      return;
    }
    const untouched = latest.current === (known.current ?? '');
    if (mine && untouched && sharedText !== latest.current) {
      latest.current = sharedText;
      setShown(sharedText);
    }
    if (mine && untouched) {
      known.current = sharedText;
    }
  }, [loaded, mine, sharedText]);

  const flush = useCallback(
    (leaving = false) => {
      clearTimeout(timer.current);
      timer.current = undefined;
      const now = latest.current;
      if (now === (known.current ?? '') || (!online.current && !leaving)) {
        return;
      }
      const current = store.getState<ChatState>(chat);
      if (!current || (now === '' && !current.draft)) {
        known.current = now;
        return;
      }
      known.current = now;
      store.dispatch(chat, {
        type: 'chat/draftChanged',
        ...(now ? { draft: messageOf({ text: now }) } : {})
      });
    },
    [store, chat]
  );

  useEffect(() => () => flush(true), [flush]);
  useEffect(() => {
    // every key while offline would be an action that waits: the last one is enough
    if (open) {
      flush();
    }
  }, [open, flush]);

  const setText = useCallback(
    (value: string) => {
      latest.current = value;
      setShown(value);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => flush(), SETTLE_MS);
    },
    [flush]
  );
  const take = useCallback(() => {
    const value = latest.current;
    latest.current = '';
    setShown('');
    flush();
    return value;
  }, [flush]);

  const theirs =
    shared && !mine && shared.text
      ? { name: nameOf(shared, me) ?? '', text: shared.text }
      : undefined;
  return { text, setText, take, theirs };
}
