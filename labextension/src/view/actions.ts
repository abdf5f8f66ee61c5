import {
  type ActiveTurn,
  type AhpStore,
  type Attachment,
  type ChatState,
  type Message,
  type ModelSelection,
  type Turn,
  uuid
} from '../ahp';
import type { URI } from '../ahp';

export interface Say {
  readonly text: string;
  readonly model?: ModelSelection;
  readonly attachments?: readonly Attachment[];
}

export function messageOf({ text, model, attachments }: Say): Message {
  return {
    text,
    origin: { kind: 'user' },
    ...(model ? { model } : {}),
    ...(attachments?.length ? { attachments } : {})
  };
}

/** Starts a turn. Rejects with `Refused` when the host will not, with `Withdrawn` when it was taken back. */
export function say(store: AhpStore, chat: URI, what: Say): Promise<void> {
  return store.dispatched(chat, {
    type: 'chat/turnStarted',
    turnId: uuid(),
    startedAt: new Date().toISOString(),
    message: messageOf(what)
  });
}

export function stop(store: AhpStore, chat: URI, turn: ActiveTurn): Promise<void> {
  const duration = Math.max(0, Date.now() - Date.parse(turn.startedAt)) || 0;
  return store.dispatched(chat, { type: 'chat/turnCancelled', turnId: turn.id, duration });
}

/** Whether the last turn can be taken up where it failed. */
export function isResumable(turn: Turn): boolean {
  const part = turn.responseParts[turn.responseParts.length - 1];
  return turn.state === 'error' && part?.kind === 'error' && part.resumable === true;
}

/**
 * Says something in the place of what was said: that turn and all behind it are dropped first. Rejects with what went
 * wrong; it may be that they were dropped, and what was to be said was not.
 */
export async function resend(store: AhpStore, chat: URI, turn: Turn, what: Say): Promise<void> {
  const find = (): { at: number; turns: readonly Turn[]; more: boolean } => {
    const { turns = [], turnsNextCursor } = store.getState<ChatState>(chat) ?? {};
    return {
      at: turns.findIndex(each => each.id === turn.id),
      turns,
      more: turnsNextCursor !== undefined
    };
  };
  if (find().at === 0 && find().more) {
    await store.fetchTurns(chat); // what is kept is named by its last turn
  }
  const { at, turns, more } = find();
  if (at < 0 || (at === 0 && more)) {
    throw new Error(
      at < 0 ? 'That turn is not there any more' : 'The turn before it could not be loaded'
    );
  }
  await rewind(store, chat, turns[at - 1]?.id);
  await say(store, chat, what);
}

/** Drops the turns after that one, or all of them. */
export function rewind(store: AhpStore, chat: URI, turnId: string | undefined): Promise<void> {
  return store.dispatched(chat, { type: 'chat/truncated', ...(turnId ? { turnId } : {}) });
}

/** Takes a failed turn up where it failed, or says the same again. */
export function retry(store: AhpStore, chat: URI, turn: Turn): Promise<void> {
  if (isResumable(turn)) {
    return store.dispatched(chat, { type: 'chat/turnResume', turnId: turn.id });
  }
  const { text, model, attachments } = turn.message;
  return say(store, chat, { text, model, attachments });
}
