import { useCallback, useEffect, useRef, useState } from 'react';
import type { ChatState, URI } from '../ahp';
import { stop } from './actions';
import { useIsOffline } from './connection';
import { duration } from './format';
import { useView } from './host';
import { sentence } from './text';
import { useChat } from './use';

/** A stop that takes longer is said to be under way. */
const PATIENCE_MS = 400;

export interface Stop {
  /** Asks the host to stop the turn that runs; pressed again, says how far that is. */
  stop(): void;
  /** Whether it was asked, and has not stopped it for a while. */
  readonly stopping: boolean;
}

/**
 * Stopping the turn of a chat. `stopped` takes the turns that were stopped here; what went wrong, or takes long, is told.
 */
export function useStop(
  chat: URI,
  stopped: Set<string>,
  onProblem: (problem: string | undefined) => void
): Stop {
  const { store, host } = useView();
  const { words } = host;
  const { t } = words;
  const active = useChat(chat, state => state?.activeTurn?.id);
  const offline = useIsOffline();
  const asked = useRef<{ turn: string; at: number }>();
  const said = useRef(false);
  const [stopping, setStopping] = useState(false);

  useEffect(() => {
    // it has ended, or another one runs
    setStopping(false);
    asked.current = undefined;
    if (said.current) {
      said.current = false;
      onProblem(undefined);
    }
  }, [active, onProblem]);

  const again = useCallback((): void => {
    said.current = true;
    const since = duration(Date.now() - (asked.current?.at ?? 0), words);
    onProblem(
      offline
        ? t('There is no connection to the server. The stop goes out as soon as there is one.')
        : t(
            'The server was asked to stop the turn %1 ago and has not answered. It stops as soon as the server does.',
            since
          )
    );
  }, [offline, onProblem, t, words]);

  const first = useCallback((): void => {
    const turn = store.getState<ChatState>(chat)?.activeTurn;
    if (!turn) {
      return;
    }
    if (asked.current?.turn === turn.id) {
      again();
      return;
    }
    const current = (asked.current = { turn: turn.id, at: Date.now() });
    stopped.add(turn.id);
    setTimeout(() => asked.current === current && setStopping(true), PATIENCE_MS);
    stop(store, chat, turn).catch((error: Error) => {
      if (asked.current === current) {
        asked.current = undefined;
        setStopping(false);
        onProblem(t('Not stopped: %1', sentence(error.message)));
      }
    });
  }, [store, chat, stopped, again, onProblem, t]);

  useEffect(
    () => () => {
      asked.current = undefined;
    },
    []
  );
  return { stop: first, stopping };
}
