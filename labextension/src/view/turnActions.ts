import { useMemo } from 'react';
import type { AgentInfo, ChatState, Turn, URI } from '../ahp';
import { retry, rewind } from './actions';
import type { May } from './grants';
import { type ChatRef, useView } from './host';
import { sentence } from './text';

/** Words that somebody picked out of an answer. */
export interface Selection {
  readonly text: string;
  readonly responsePartId?: string;
}

/** What can be done with a turn that ended. What is absent cannot be done here, by this reader, with this agent. */
export interface TurnActions {
  /** Puts its message into the box, to be sent again in its place. */
  edit?(turn: Turn): void;
  /** Makes a chat that goes on from there. */
  fork?(turnId: string): void;
  /** Takes a failed turn up, or says the same again. */
  retry?(turn: Turn): void;
  /** Drops what was said after it. */
  rewind?(turnId: string): void;
  /** Makes a chat beside this one, to talk about it. Of the running turn, too. */
  aside?(turnId: string, selection?: Selection): void;
  /** Whether a turn is followed by others, and could be gone back to now. */
  canRewind(turnId: string): boolean;
}

interface Options {
  chat: URI;
  session: URI | undefined;
  agent: AgentInfo | undefined;
  may: May;
  readOnly: boolean;
  /** Absent where there is no other place for a chat. */
  open: ((chat: ChatRef) => void) | undefined;
  onEdit: (turn: Turn) => void;
  onProblem: (problem: string | undefined) => void;
  /** Something new is about to stand at the end. */
  toEnd: () => void;
}

export function useTurnActions(options: Options): TurnActions {
  const { chat, session, agent, may, readOnly, open, onEdit, onProblem, toEnd } = options;
  const { store, host } = useView();
  const { t } = host.words;
  const { fork, sideChat } = agent?.capabilities?.multipleChats ?? {};
  return useMemo(() => {
    const writable = !readOnly && may('chat:send');
    const cuts = !readOnly && may('chat:truncate');
    const opens = !!open && !!session && may('chat:create') && may('chat:turns');
    const say = (what: (reason: string) => string) => (error: Error) =>
      onProblem(what(sentence(error.message)));
    const isIdle = (): boolean => {
      const idle = !store.getState<ChatState>(chat)?.activeTurn;
      onProblem(idle ? undefined : t('A turn runs. Stop it first, or wait for it.'));
      return idle;
    };
    const make = (source: Parameters<typeof store.createChat>[1]): Promise<void> =>
      store.createChat(session!, source).then(made => open!({ chat: made, session }));
    const actions: TurnActions = {
      canRewind: turnId => {
        const state = store.getState<ChatState>(chat);
        return !!state && !state.activeTurn && state.turns.at(-1)?.id !== turnId;
      },
      ...(cuts && writable
        ? {
            edit: turn => {
              if (isIdle()) {
                onEdit(turn);
              }
            }
          }
        : {}),
      ...(opens && fork
        ? {
            fork: turnId => {
              onProblem(undefined);
              make({ source: { kind: 'fork', chat, turnId } }).catch(
                say(reason => t('Not forked: %1', reason))
              );
            }
          }
        : {}),
      ...(writable
        ? {
            retry: turn => {
              if (isIdle()) {
                toEnd();
                retry(store, chat, turn).catch(say(reason => t('Not tried again: %1', reason)));
              }
            }
          }
        : {}),
      ...(cuts
        ? {
            rewind: turnId => {
              if (isIdle()) {
                toEnd();
                rewind(store, chat, turnId).catch(say(reason => t('Not rewound: %1', reason)));
              }
            }
          }
        : {}),
      ...(opens && sideChat
        ? {
            aside: (turnId, selection) => {
              onProblem(undefined);
              make({
                source: { kind: 'sideChat', chat, turnId, ...(selection ? { selection } : {}) }
              }).catch(say(reason => t('No side chat: %1', reason)));
            }
          }
        : {})
    };
    return actions;
  }, [store, t, chat, session, may, readOnly, open, onEdit, onProblem, toEnd, fork, sideChat]);
}
