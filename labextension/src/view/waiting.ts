import { useEffect, useMemo, useRef } from 'react';
import {
  type AhpAction,
  type AhpStore,
  type ChatState,
  HOLD,
  type Message,
  saidAs,
  type URI,
  uuid,
  waitedAs
} from '../ahp';
import { messageOf, type Say, stop } from './actions';
import { useView } from './host';
import { senderOf } from './people';
import { attachmentsIn, referencesOf } from './references';
import { useChannel, useChat } from './use';

/** A message that waits: to be read by the model, for the running turn to end, or for the connection. */
export interface Waits {
  readonly id: string;
  readonly kind: 'steering' | 'queued';
  readonly message: Message;
  /** It has not left this page. */
  readonly unsent: boolean;
}

/** What waits in a chat, in the order in which it goes. */
export function useWaiting(chat: URI): readonly Waits[] {
  const steering = useChat(chat, state => state?.steeringMessage);
  const queued = useChat(chat, state => state?.queuedMessages);
  const pending = useChannel<ChatState, Pending>(chat, view => view.pending);
  return useMemo(() => {
    const isUnsent = (id: string): boolean => unsentOf(pending, id).length > 0;
    return [
      ...(steering
        ? [{ ...steering, kind: 'steering' as const, unsent: isUnsent(steering.id) }]
        : []),
      ...(queued ?? []).map(each => ({
        ...each,
        kind: 'queued' as const,
        unsent: isUnsent(each.id)
      }))
    ];
  }, [steering, queued, pending]);
}

type PendingSet = Extract<AhpAction, { type: 'chat/pendingMessageSet' }>;
type Pending = ReturnType<AhpStore['getChannel']>['pending'];

function unsentOf(pending: Pending, id: string): Pending {
  return pending.filter(
    ({ sent, action }) => !sent && action.type === 'chat/pendingMessageSet' && action.id === id
  );
}

// All of these reject with `Refused` when the host will not, with `Withdrawn` when it was taken back.

/** Has a message wait for the running turn; it starts at once when none runs. */
export function queue(store: AhpStore, chat: URI, what: Say, id = uuid()): Promise<void> {
  return store.dispatched(chat, {
    type: 'chat/pendingMessageSet',
    kind: 'queued',
    id,
    message: messageOf(what)
  });
}

/** Hands a message to the running turn, for its next step. */
export function steer(store: AhpStore, chat: URI, what: Say, id = uuid()): Promise<void> {
  return store.dispatched(chat, {
    type: 'chat/pendingMessageSet',
    kind: 'steering',
    id,
    message: messageOf(what)
  });
}

/** Changes the words of a message that waits. Nothing starts for it. */
export async function rewrite(
  store: AhpStore,
  chat: URI,
  waits: Waits,
  text: string
): Promise<void> {
  const { id, kind } = waits;
  const { attachments: _, ...rest } = waits.message;
  const attachments = attachmentsIn(text, referencesOf(waits.message));
  const message = { ...rest, text, ...(attachments.length > 0 ? { attachments } : {}) };
  const [unsent] = unsentOf(store.getChannel<ChatState>(chat).pending, id);
  if (unsent) {
    // behind it, the change could come when the message has begun its turn already
    store.revise(unsent.clientSeq, { ...(unsent.action as PendingSet), message });
    return;
  }
  const set = { type: 'chat/pendingMessageSet', kind, id, message, _meta: HOLD } as const;
  await store.dispatched(chat, set);
}

/** Puts the queue into that order. Nothing starts for it. */
export function reorder(store: AhpStore, chat: URI, order: readonly string[]): Promise<void> {
  return store.dispatched(chat, { type: 'chat/queuedMessagesReordered', order, _meta: HOLD });
}

/** Takes a message back. Nothing starts for it. */
export async function takeBack(store: AhpStore, chat: URI, { id, kind }: Waits): Promise<void> {
  const { pending } = store.getChannel<ChatState>(chat);
  unsentOf(pending, id).forEach(({ clientSeq }) => store.withdraw(clientSeq));
  const { steeringMessage, queuedMessages } = store.getState<ChatState>(chat) ?? {};
  if ([steeringMessage, ...(queuedMessages ?? [])].some(each => each?.id === id)) {
    await store.dispatched(chat, { type: 'chat/pendingMessageRemoved', kind, id, _meta: HOLD });
  }
}

/** Starts a turn with a message that waits, while none runs. */
export function start(store: AhpStore, chat: URI, { id, message }: Waits): Promise<void> {
  return store.dispatched(chat, {
    type: 'chat/turnStarted',
    turnId: uuid(),
    startedAt: new Date().toISOString(),
    message: { ...message, _meta: { ...message._meta, ...waitedAs(id) } },
    queuedMessageId: id
  });
}

/** Makes a queued message a steering one. When the host will not have it, it goes back to its place. */
export async function steerWith(store: AhpStore, chat: URI, waits: Waits): Promise<void> {
  const { id, message } = waits;
  const order = (store.getState<ChatState>(chat)?.queuedMessages ?? []).map(each => each.id);
  // under one id, and out of the queue before it is answered: however the turn ends meanwhile, it is said once
  const handed = store.dispatched(chat, {
    type: 'chat/pendingMessageSet',
    kind: 'steering',
    id,
    message
  });
  const removed = store.dispatched(chat, {
    type: 'chat/pendingMessageRemoved',
    kind: 'queued',
    id,
    _meta: HOLD
  });
  try {
    await handed;
  } catch (error) {
    await removed;
    await store.dispatched(chat, {
      type: 'chat/pendingMessageSet',
      kind: 'queued',
      id,
      message,
      _meta: HOLD
    });
    await reorder(store, chat, order);
    throw error;
  }
  await removed;
}

/** Stops what runs and starts a turn with a message that waits. */
export async function stopAndStart(store: AhpStore, chat: URI, waits: Waits): Promise<void> {
  const turn = store.getState<ChatState>(chat)?.activeTurn;
  if (turn) {
    await stop(store, chat, turn);
  }
  await start(store, chat, waits);
}

/** Whether the reader wrote it; one that does not say whose it is, was it sent from here. */
export function isOwn(
  waits: Waits,
  me: string | undefined,
  sentHere: ReadonlySet<string>
): boolean {
  const sender = senderOf(waits.message);
  return sender !== undefined && me !== undefined ? sender === me : sentHere.has(waits.id);
}

/** Calls `onBack` with each steering message of a turn that was stopped before the model read it. */
export function useUnread(chat: URI, onBack: (waits: Waits) => void): void {
  const { store } = useView();
  const back = useRef(onBack);
  back.current = onBack;
  useEffect(() => {
    let before = store.getState<ChatState>(chat);
    return store.watch(chat, () => {
      const after = store.getState<ChatState>(chat);
      const waited = before?.steeringMessage;
      const turnId = before?.activeTurn?.id ?? before?.turns.at(-1)?.id;
      before = after;
      if (!waited || !after || after.steeringMessage?.id === waited.id) {
        return;
      }
      const stopped = after.turns.find(turn => turn.id === turnId)?.state === 'cancelled';
      const queued = after.queuedMessages?.some(each => each.id === waited.id);
      if (stopped && !queued && !saidAs(after, waited.id)) {
        back.current({ ...waited, kind: 'steering', unsent: false });
      }
    });
  }, [store, chat]);
}
