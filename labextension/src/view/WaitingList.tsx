import React, { useEffect, useRef } from 'react';
import { type ChatState, Refused, type URI, Withdrawn } from '../ahp';
import { movedTo, useDrag } from './drag';
import type { May } from './grants';
import { useCommandPrefix } from './connection';
import { useView } from './host';
import { nameOf } from './people';
import { isCommand, sentence } from './text';
import { useChat } from './use';
import {
  reorder,
  rewrite,
  start,
  steerWith,
  stopAndStart,
  takeBack,
  useWaiting,
  type Waits
} from './waiting';
import { type WaitingActions, WaitingRow } from './WaitingRow';

/** A message that waits, while its words are being changed. */
export interface Edit {
  readonly id: string;
  readonly text: string;
}

interface Props {
  chat: URI;
  waiting: readonly Waits[];
  running: boolean;
  offline: boolean;
  /** Whether the agent takes words while it works. */
  steerable: boolean;
  may: May;
  me: string | undefined;
  /** The turns that were stopped here. */
  stopped: ReadonlySet<string>;
  edit: Edit | undefined;
  onEdit: (edit: Edit | undefined) => void;
  /** Words that were being changed when their message was no longer there to take them. */
  onLost: (text: string) => void;
  onProblem: (problem: string) => void;
  /** Something is stopped on the way. */
  onStop: (turnId: string) => void;
  /** Puts the cursor into the box. */
  toBox: () => void;
}

/** What waits, in the order in which it goes; each row says when, and what can be done with it. */
export function WaitingList(props: Props): React.ReactElement | null {
  const { chat, waiting, running, offline, steerable, may, me, stopped, edit, onEdit } = props;
  const { store, host } = useView();
  const { t, n } = host.words;
  const last = useChat(chat, state => state?.turns.at(-1));
  const list = useRef<HTMLUListElement>(null);
  const prefix = useCommandPrefix();
  const fail = (error: Error): void => {
    if (!(error instanceof Withdrawn)) {
      props.onProblem(
        t('Not changed: %1', sentence(error instanceof Refused ? error.reason : error.message))
      );
    }
  };
  const drag = useDrag(list, order => void reorder(store, chat, order).catch(fail));

  // ── what was changed when it went ──
  const lost = useRef(props.onLost);
  lost.current = props.onLost;
  const known = useRef<Waits>();
  known.current = waiting.find(({ id }) => id === edit?.id) ?? known.current;
  const gone = edit !== undefined && !waiting.some(({ id }) => id === edit.id);
  useEffect(() => {
    if (gone && edit) {
      onEdit(undefined);
      if (edit.text.trim() && edit.text !== known.current?.message.text) {
        lost.current(edit.text);
      }
    }
  }, [gone, edit, onEdit]);

  if (!waiting.length) {
    return null;
  }
  const slot = waiting.find(({ kind }) => kind === 'steering');
  const queued = waiting.filter(({ kind }) => kind === 'queued');
  const order = drag.order ?? queued.map(({ id }) => id);
  const rows = [
    ...(slot ? [slot] : []),
    ...order.flatMap(id => queued.find(each => each.id === id) ?? [])
  ];
  const writable = may('chat:send');

  const held =
    last?.state === 'cancelled'
      ? stopped.has(last.id)
        ? t('Held, because you stopped the turn')
        : t('Held, because the turn was stopped')
      : last?.state === 'error'
        ? t('Held, because the last turn failed')
        : undefined;
  const whenOf = ({ id, kind, unsent }: Waits): string | undefined =>
    unsent
      ? t('Goes when the connection is back')
      : !running
        ? held
        : kind === 'steering'
          ? t('Steering: goes in at the next step')
          : id === order[0]
            ? t('Goes when this turn ends')
            : undefined;

  const sendOf = (waits: Waits): WaitingActions['send'] => {
    if (offline || waits.unsent) {
      return undefined;
    }
    if (!running) {
      return {
        label: t('Send now'),
        does: 'start',
        run: () => {
          start(store, chat, waits).catch(fail);
          props.toBox();
        }
      };
    }
    if (waits.kind === 'steering') {
      return undefined;
    }
    if (steerable && !isCommand(waits.message.text, prefix)) {
      return slot
        ? undefined
        : {
            label: t('Send now: steer with it'),
            does: 'steer',
            run: () => {
              steerWith(store, chat, waits).catch(fail);
              props.toBox();
            }
          };
    }
    return may('chat:cancel')
      ? {
          label: t('Stop and send'),
          does: 'stop',
          run: () => {
            const turn = store.getState<ChatState>(chat)?.activeTurn;
            if (turn) {
              props.onStop(turn.id);
            }
            stopAndStart(store, chat, waits).catch(fail);
            props.toBox();
          }
        }
      : undefined;
  };

  const actionsOf = (waits: Waits, index: number): WaitingActions => {
    if (!writable) {
      return {};
    }
    const { id, kind, message, unsent } = waits;
    return {
      send: sendOf(waits),
      remove: () => {
        const next = rows[index + 1] ?? rows[index - 1];
        takeBack(store, chat, waits).catch(fail);
        const row =
          next && list.current?.querySelector<HTMLElement>(`[data-waiting="${next.id}"] button`);
        if (row) {
          row.focus();
        } else {
          props.toBox();
        }
      },
      ...(kind === 'queued' ? { edit: () => onEdit({ id, text: message.text }) } : {}),
      // the first of those that have not left goes before its order could be changed
      ...(kind === 'queued' && !unsent
        ? {
            move: (by: number) => {
              // the state, not what was drawn of it: keys come faster than frames
              const now = (store.getState<ChatState>(chat)?.queuedMessages ?? []).map(
                each => each.id
              );
              const moved = movedTo(now, id, now.indexOf(id) + by);
              if (moved.some((each, at) => each !== now[at])) {
                reorder(store, chat, moved).catch(fail);
              }
            }
          }
        : {})
    };
  };

  const save = (waits: Waits): void => {
    const text = edit?.text.trim() ?? '';
    onEdit(undefined);
    props.toBox();
    if (text && text !== waits.message.text) {
      rewrite(store, chat, waits, text).catch((error: Error) => {
        fail(error);
        lost.current(text);
      });
    }
  };

  return (
    <>
      {rows.length > 1 && (
        <header>
          <span className="ahp-grow">{n('%1 waiting', '%1 waiting', rows.length)}</span>
        </header>
      )}
      <ul ref={list} role="list" aria-label={t('Waiting messages')}>
        {rows.map((waits, index) => (
          <WaitingRow
            key={waits.id}
            id={waits.id}
            message={waits.message}
            name={nameOf(waits.message, me)}
            kind={waits.kind}
            when={whenOf(waits)}
            position={order.indexOf(waits.id) + 1}
            count={order.length}
            actions={actionsOf(waits, index)}
            edited={edit?.id === waits.id ? edit.text : undefined}
            onEdit={text => onEdit({ id: waits.id, text })}
            onSave={() => save(waits)}
            onLeave={() => {
              onEdit(undefined);
              props.toBox();
            }}
            dragged={drag.dragged === waits.id}
            onGrab={event => drag.grab(event, waits.id, order)}
          />
        ))}
      </ul>
    </>
  );
}

/** What waits, for those who may only see it. */
export function WaitingSeen(props: {
  chat: URI;
  running: boolean;
  me: string | undefined;
}): React.ReactElement | null {
  const waiting = useWaiting(props.chat);
  if (!waiting.length) {
    return null;
  }
  return (
    <div className="ahp-Tray">
      <WaitingList
        {...props}
        waiting={waiting}
        offline={false}
        steerable={false}
        may={nothing}
        stopped={NONE}
        edit={undefined}
        onEdit={ignore}
        onLost={ignore}
        onProblem={ignore}
        onStop={ignore}
        toBox={ignore}
      />
    </div>
  );
}

const NONE: ReadonlySet<string> = new Set();
const nothing = (): boolean => false;
const ignore = (): void => undefined;
