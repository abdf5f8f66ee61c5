import React, { useLayoutEffect, useRef } from 'react';
import type { Attachment, CompletionItem } from '../ahp';
import { iconOf } from './Chips';
import { useWords } from './host';
import { Icon } from './Icon';
import { revealed } from './text';

const MARGIN = 8;
const LEAST = 96;

type Kind = Attachment['type'];

interface Props {
  id: string;
  /** The id of an item's element. */
  option: (index: number) => string;
  label: string;
  items: readonly CompletionItem[];
  /** The marked item; -1 for none. */
  at: number;
  /** What stands behind the trigger. */
  typed: string;
  onTake: (item: CompletionItem) => void;
}

/** What fits the word that is being typed, over the text and never over the box. The keys are the box's. */
export function CompletionPopup(props: Props): React.ReactElement {
  const { id, option, label, items, at, typed, onTake } = props;
  const { t } = useWords();
  const root = useRef<HTMLDivElement>(null);

  useLayoutEffect(() => {
    const popup = root.current;
    const room = popup?.parentElement?.getBoundingClientRect().top ?? 0;
    const top = popup?.closest('.ahp')?.getBoundingClientRect().top ?? 0;
    popup?.style.setProperty('max-height', `${Math.max(LEAST, room - top - MARGIN)}px`);
  }, []);
  useLayoutEffect(() => {
    if (at >= 0) {
      root.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
    }
  }, [at]);

  const names: Partial<Record<Kind, string>> = {
    simple: t('Commands'),
    chat: t('Chats'),
    resource: t('Files')
  };
  const kinds = [...new Set(items.map(item => item.attachment.type))];
  return (
    <div ref={root} className="ahp-Popup ahp-Completions" onMouseDown={keepFocus}>
      <div id={id} role="listbox" aria-label={label}>
        {kinds.map(kind => (
          <div key={kind} role="group" aria-labelledby={`${id}${kind}`}>
            <span id={`${id}${kind}`}>{names[kind] ?? t('Others')}</span>
            {items.map(
              (item, index) =>
                item.attachment.type === kind && (
                  <div
                    key={index}
                    id={option(index)}
                    role="option"
                    aria-selected={index === at}
                    className="ahp-Item"
                    onClick={() => onTake(item)}
                  >
                    <Icon name={iconOf(item.attachment)} />
                    <span className="ahp-grow ahp-clip">
                      <Matched text={item.attachment.label} typed={typed} />{' '}
                      <small>{aside(item.attachment)}</small>
                    </span>
                  </div>
                )
            )}
          </div>
        ))}
      </div>
      <footer aria-hidden="true">
        <span>
          <kbd className="ahp-Kbd">↑ ↓</kbd> {t('choose')}
        </span>
        <span>
          <kbd className="ahp-Kbd">Tab</kbd> {t('take')}
        </span>
        <span>
          <kbd className="ahp-Kbd">Esc</kbd> {t('close')}
        </span>
      </footer>
    </div>
  );
}

function keepFocus(event: React.MouseEvent): void {
  event.preventDefault();
}

/** What stands beside the name: the directory of a file, what a command does. */
function aside({ _meta: meta }: Attachment): string {
  const path = meta?.['jupyter-ahp.path'];
  if (typeof path === 'string') {
    return revealed(path.replace(/[^/]*\/?$/, '').replace(/\/$/, ''));
  }
  return [meta?.['argumentHint'], meta?.['description']]
    .filter(text => typeof text === 'string')
    .join(' ');
}

/** A name, with the part of it that was typed. */
function Matched(props: { text: string; typed: string }): React.ReactElement {
  const text = revealed(props.text);
  const wanted = props.typed.replace(/^chat:|^"|^.*\//i, '').toLowerCase();
  const start = wanted ? text.toLowerCase().indexOf(wanted) : -1;
  if (start < 0) {
    return <bdi>{text}</bdi>;
  }
  const end = start + wanted.length;
  return (
    <bdi>
      {text.slice(0, start)}
      <mark>{text.slice(start, end)}</mark>
      {text.slice(end)}
    </bdi>
  );
}
