import React, { useEffect, useRef, useState } from 'react';
import type { ActiveTurn, ChatState, URI } from '../ahp';
import { useView } from './host';
import { spoken, textOf } from './text';
import type { Words } from './words';

const PACE_MS = 1000;
const LONG = 400;

/** What a screen reader is told of a chat, sentence by sentence; fed with each state, emptied at a reader's pace. */
export class Narrator {
  private readonly _queue: string[] = [];
  private _part = '';
  private _offset = 0;
  private _turn: string | undefined;
  private _activity: string | undefined;
  private readonly _asked = new Set<string>();
  private _primed = false;

  constructor(private readonly _words: Words) {}

  /** Takes the state as it is now. The first one is where the story begins: it is not told. */
  hear(state: ChatState | undefined): void {
    if (!state) {
      return;
    }
    const { t } = this._words;
    const turn = state.activeTurn;
    if (!this._primed) {
      this._primed = true;
      this._turn = turn?.id;
      this._activity = state.activity;
      this._skip(turn);
      return;
    }
    const before = this._turn;
    if (before && before !== turn?.id) {
      const ended = state.turns.find(each => each.id === before);
      const part = ended?.responseParts.find(
        each => each.kind === 'markdown' && each.id === this._part
      );
      if (part?.kind === 'markdown') {
        this._say(spoken(part.content.slice(this._offset)));
      }
      const error = ended?.responseParts[ended.responseParts.length - 1];
      if (ended?.state === 'error' && error?.kind === 'error') {
        this._say(t('The turn failed. %1', error.error.message));
      } else {
        this._say(
          ended?.state === 'cancelled' ? t('The turn was stopped.') : t('The answer is complete.')
        );
      }
    }
    if (turn && turn.id !== before) {
      this._part = '';
      this._offset = 0;
      this._activity = undefined;
      this._say(t('The agent works on it.'));
    }
    this._turn = turn?.id;
    if (turn && state.activity && state.activity !== this._activity) {
      this._say(`${state.activity}.`);
    }
    this._activity = state.activity;
    if (turn) {
      this._follow(turn);
    }
  }

  /** The next thing to say, or nothing. */
  next(): string | undefined {
    if (!this._queue.length) {
      return undefined;
    }
    const all = this._queue.join(' ');
    this._queue.length = 0;
    if (all.length <= LONG) {
      return all;
    }
    const cut = all.lastIndexOf(' ', LONG);
    const end = cut > 0 ? cut : LONG;
    this._queue.push(all.slice(end).trim());
    return all.slice(0, end);
  }

  private _skip(turn: ActiveTurn | undefined): void {
    for (const part of turn?.responseParts ?? []) {
      if (part.kind === 'markdown') {
        this._part = part.id;
        this._offset = part.content.length;
      }
    }
  }

  private _follow(turn: ActiveTurn): void {
    const { t } = this._words;
    for (const part of turn.responseParts) {
      if (part.kind === 'toolCall' && part.toolCall.status === 'pending-confirmation') {
        if (!this._asked.has(part.toolCall.toolCallId)) {
          this._asked.add(part.toolCall.toolCallId);
          this._say(
            t(
              'The agent asks: %1',
              textOf(part.toolCall.confirmationTitle) || t('Allow this call?')
            )
          );
        }
      } else if (
        part.kind === 'inputRequest' &&
        !part.response &&
        !this._asked.has(part.request.id)
      ) {
        this._asked.add(part.request.id);
        this._say(t('The agent asks: %1', textOf(part.request.message)));
      }
    }
    const last = turn.responseParts[turn.responseParts.length - 1];
    if (last?.kind !== 'markdown') {
      return;
    }
    if (last.id !== this._part) {
      this._part = last.id;
      this._offset = 0;
    }
    const rest = last.content.slice(this._offset);
    const end = Math.max(
      rest.lastIndexOf('\n\n'),
      ...['. ', '! ', '? ', '.\n', '!\n', '?\n', ':\n'].map(mark => rest.lastIndexOf(mark))
    );
    // never cut inside a fence (code is not read out), so what was said so far holds whole ones
    const fences = rest.slice(0, end + 1).match(/^(?:```|~~~)/gm)?.length ?? 0;
    if (end > 0 && fences % 2 === 0) {
      this._say(spoken(rest.slice(0, end + 1)));
      this._offset += end + 1;
    }
  }

  private _say(text: string): void {
    if (text) {
      this._queue.push(text);
    }
  }
}

/** The one polite line for screen readers: the transcript itself is silent. */
export function Announcer(props: { chat: URI }): React.ReactElement {
  const { chat } = props;
  const { store, host } = useView();
  const [line, setLine] = useState('');
  const narrator = useRef<Narrator>();
  useEffect(() => {
    narrator.current = new Narrator(host.words);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const speak = (): void => {
      timer = undefined;
      const text = narrator.current?.next();
      if (text !== undefined) {
        setLine(text);
        timer = setTimeout(speak, PACE_MS);
      }
    };
    const hear = (): void => {
      narrator.current?.hear(store.getState<ChatState>(chat));
      timer ??= setTimeout(speak, PACE_MS);
    };
    hear();
    const unwatch = store.watch(chat, hear);
    return () => {
      unwatch();
      clearTimeout(timer);
    };
  }, [store, host, chat]);
  return (
    <div className="ahp-sr" role="status" aria-live="polite">
      {line}
    </div>
  );
}
