import React, { useEffect, useId, useRef, useState } from 'react';
import type { Attachment, CompletionItem, URI } from '../ahp';
import { CompletionPopup } from './CompletionPopup';
import { useView } from './host';
import type { Reference } from './references';
import { isCommand } from './text';
import { typeInto } from './typing';

const SETTLE_MS = 80;
/** Of each kind, when nothing but the trigger is typed yet. */
const FIRST_FEW = 3;

interface Shown {
  readonly items: readonly CompletionItem[];
  /** The text and the place of the cursor that the items are for. */
  readonly text: string;
  readonly caret: number;
  /** Where the word begins that they complete. */
  readonly start: number;
  /** The marked item; -1 for none. */
  readonly at: number;
}

export interface Completion {
  /** For the text box, which is no combobox: a textarea may not be one. */
  readonly box: React.TextareaHTMLAttributes<HTMLTextAreaElement>;
  /** The text changed by typing. */
  typed(box: HTMLTextAreaElement): void;
  /** Whether the key was the popup's. */
  key(event: React.KeyboardEvent<HTMLTextAreaElement>): boolean;
  readonly popup: React.ReactNode;
}

/** Where the word under the cursor begins, if it begins with one of the triggers; -1 otherwise. */
export function wordAt(text: string, caret: number, triggers: readonly string[]): number {
  // a path with spaces stands in quotes, the second of which may be yet to come
  const found = /(?:^|\s)(\S(?:"[^"\n]*|[^\s"]\S*)?)$/.exec(text.slice(0, caret));
  return found && triggers.includes(found[1][0]) ? caret - found[1].length : -1;
}

/** What can be shown at once: of several kinds the first few each, until more is typed. */
function firstFew(items: readonly CompletionItem[]): readonly CompletionItem[] {
  const kinds = new Map<Attachment['type'], number>();
  const few = items.filter(({ attachment: { type } }) => {
    kinds.set(type, (kinds.get(type) ?? 0) + 1);
    return kinds.get(type)! <= FIRST_FEW;
  });
  return kinds.size > 1 ? few : items;
}

/**
 * Offers what the host knows to fit the word that is being typed. Nothing is marked behind a trigger alone, nor while
 * what is shown is for less than what is typed: Enter and Tab take a marked item, and are the box's own otherwise.
 */
export function useCompletion(props: {
  chat: URI;
  box: React.RefObject<HTMLTextAreaElement>;
  onText: (text: string) => void;
  onTake: (reference: Reference) => void;
}): Completion {
  const { chat, box, onText, onTake } = props;
  const { store, host } = useView();
  const { t } = host.words;
  const id = useId();
  const [shown, setShown] = useState<Shown>();
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const asked = useRef(0);
  /** Where the word begins for which the popup was closed. */
  const closed = useRef(-1);

  const forget = (): void => {
    clearTimeout(timer.current);
    asked.current += 1;
  };
  const close = (): void => {
    forget();
    setShown(undefined);
  };
  useEffect(() => close, [chat]);

  const ask = async (text: string, caret: number, start: number): Promise<void> => {
    const number = ++asked.current;
    let items: readonly CompletionItem[] = [];
    try {
      items = await store.completions(chat, text, caret);
    } catch (error) {
      console.warn('jupyter-ahp: nothing is offered here:', error);
    }
    if (number !== asked.current) {
      return; // for something that is not there any more
    }
    const now = box.current;
    if (now?.value !== text || now.selectionEnd !== caret) {
      setShown(undefined);
      return;
    }
    const alone = caret - start === 1;
    setShown(
      items.length > 0
        ? { items: alone ? firstFew(items) : items, text, caret, start, at: alone ? -1 : 0 }
        : undefined
    );
  };

  const typed = (now: HTMLTextAreaElement): void => {
    forget();
    const { value, selectionStart, selectionEnd } = now;
    const { completionTriggerCharacters: triggers = [], terminalCommandPrefix } =
      store.connection.host ?? {};
    const asks = selectionStart === selectionEnd && !isCommand(value, terminalCommandPrefix);
    const start = asks ? wordAt(value, selectionEnd, triggers) : -1;
    if (start < 0 || start !== closed.current) {
      closed.current = -1;
    }
    if (start < 0 || start === closed.current || store.connection.getState().status !== 'open') {
      setShown(undefined);
      return;
    }
    setShown(before => (before?.start === start ? { ...before, at: -1 } : undefined));
    timer.current = setTimeout(() => void ask(value, selectionEnd, start), SETTLE_MS);
  };

  const take = (item: CompletionItem): void => {
    const now = box.current;
    if (!now || !shown) {
      return;
    }
    const start = item.rangeStart ?? shown.start;
    const end = now.value === shown.text ? (item.rangeEnd ?? shown.caret) : now.selectionEnd;
    const mark = item.insertText.trimEnd();
    close();
    typeInto(now, /^\s/.test(now.value.slice(end)) ? mark : item.insertText, start, end);
    onText(now.value);
    onTake({ mark, attachment: item.attachment });
  };

  const key = (event: React.KeyboardEvent<HTMLTextAreaElement>): boolean => {
    if (!shown || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) {
      return false;
    }
    const { items, at } = shown;
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step) {
      const from = at < 0 && step < 0 ? 0 : at;
      setShown({ ...shown, at: (from + step + items.length) % items.length });
    } else if ((event.key === 'Enter' || event.key === 'Tab') && at >= 0) {
      take(items[at]);
    } else if (event.key === 'Escape') {
      closed.current = shown.start;
      close();
    } else {
      return false;
    }
    event.preventDefault();
    event.stopPropagation();
    return true;
  };

  /** A key or the pointer may have put the cursor elsewhere. */
  const moved = (event: React.SyntheticEvent<HTMLTextAreaElement>): void => {
    const { value, selectionStart, selectionEnd } = event.currentTarget;
    const there = selectionStart === shown?.caret && selectionEnd === shown.caret;
    if (shown && value === shown.text && !there) {
      close();
    }
  };

  const popup = `${id}list`;
  const option = (index: number): string => `${id}${index}`;
  return {
    typed,
    key,
    box: {
      'aria-autocomplete': 'list',
      'aria-controls': shown && popup,
      'aria-activedescendant': shown && shown.at >= 0 ? option(shown.at) : undefined,
      onBlur: close,
      onKeyUp: moved,
      onClick: moved,
      onCompositionEnd: event => typed(event.currentTarget)
    },
    popup: shown && (
      <CompletionPopup
        id={popup}
        option={option}
        label={t('Suggestions')}
        items={shown.items}
        at={shown.at}
        typed={shown.text.slice(shown.start + 1, shown.caret)}
        onTake={take}
      />
    )
  };
}
