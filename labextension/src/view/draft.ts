import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Attachment, ChatState, Message, URI } from '../ahp';
import { messageOf } from './actions';
import { isLost } from './Chips';
import { useConnection, useMe } from './connection';
import { useView } from './host';
import { nameOf, senderOf } from './people';
import { attachmentsIn, type Reference, referencesOf } from './references';
import { useChat } from './use';

const SETTLE_MS = 400;

export interface Draft {
  readonly text: string;
  /** What goes along: of what was attached by words, what still stands in the text. */
  readonly attachments: readonly Attachment[];
  setText(text: string): void;
  /** Another text, with what is attached to it. */
  setMessage(message: Pick<Message, 'text' | 'attachments'>): void;
  /** What was sent and did not go comes back, above what was typed meanwhile. */
  putBack(message: Pick<Message, 'text' | 'attachments'>): void;
  attach(reference: Reference): void;
  /** Takes one of the attachments off; its words stay. */
  detach(index: number): void;
  /** Takes the message out of the box, for sending: trimmed. The shared draft goes with it. */
  take(): Pick<Message, 'text' | 'attachments'>;
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
  const [references, setShownReferences] = useState<readonly Reference[]>([]);
  const attached = useRef<readonly Reference[]>([]);
  const setReferences = useCallback((value: readonly Reference[]) => {
    attached.current = value;
    setShownReferences(value);
  }, []);
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
      setReferences(referencesOf(store.getState<ChatState>(chat)?.draft));
    }
    if (mine && untouched) {
      known.current = sharedText;
    }
  }, [loaded, mine, sharedText, store, chat, setReferences]);

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
      const attachments = attachmentsIn(now, attached.current);
      const draft = now ? { draft: messageOf({ text: now, attachments }) } : {};
      store.dispatched(chat, { type: 'chat/draftChanged', ...draft }).catch(() => {
        // not kept by the host: what it has instead is older, and does not belong into the box
        if (known.current === now) {
          known.current = undefined;
        }
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
  const attachTo = useCallback(
    (value: readonly Reference[]) => {
      setReferences(value);
      known.current = undefined; // the same text, with something else attached, is another draft
      setText(latest.current);
    },
    [setReferences, setText]
  );
  const setMessage: Draft['setMessage'] = useCallback(
    message => {
      setReferences(referencesOf(message));
      setText(message.text);
    },
    [setReferences, setText]
  );
  const putBack: Draft['putBack'] = useCallback(
    message => {
      setReferences([...referencesOf(message), ...attached.current]);
      setText(latest.current ? `${message.text}\n${latest.current}` : message.text);
    },
    [setReferences, setText]
  );
  const attach = useCallback(
    (reference: Reference) => attachTo([...attached.current, reference]),
    [attachTo]
  );
  const detach = useCallback(
    (index: number) => {
      const shown = attachmentsIn(latest.current, attached.current);
      const left = shown.filter((_, at) => at !== index);
      attachTo(referencesOf({ text: latest.current, attachments: left }));
    },
    [attachTo]
  );
  const take: Draft['take'] = useCallback(() => {
    const value = latest.current.trim();
    const attachments = attachmentsIn(value, attached.current).filter(
      attachment => !isLost(attachment, uri => store.offers.get(uri) !== undefined)
    );
    latest.current = '';
    setShown('');
    setReferences([]);
    flush();
    return { text: value, ...(attachments.length > 0 ? { attachments } : {}) };
  }, [store, flush, setReferences]);

  const theirs =
    shared && !mine && shared.text
      ? { name: nameOf(shared, me) ?? '', text: shared.text }
      : undefined;
  const attachments = useMemo(() => attachmentsIn(text, references), [text, references]);
  return { text, attachments, setText, setMessage, putBack, attach, detach, take, theirs };
}
