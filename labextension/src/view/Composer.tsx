import React, { useLayoutEffect, useRef } from 'react';
import type { Completion } from './completion';
import { useWords } from './host';
import { Icon } from './Icon';
import { typeInto } from './typing';

export interface ComposerProps {
  text: string;
  onText: (text: string) => void;
  onSend: () => void;
  onStop: () => void;
  /** ↑ in an empty box: what was said last comes back. */
  onRecall: () => void;
  running: boolean;
  offline: boolean;
  /** Something waits for the connection already; what is typed stays in the box until it is gone. */
  blocked?: string;
  /** What is offered for the word that is being typed. */
  completion?: Completion;
  /** What goes along, above the text. */
  chips?: React.ReactNode;
  /** What stands in the bar beside the button, such as the model. */
  children?: React.ReactNode;
}

/** Keys while an input method composes are its own; 229 is what some browsers say of them instead. */
export function isComposing(event: { isComposing?: boolean; keyCode?: number }): boolean {
  return event.isComposing === true || event.keyCode === 229;
}

/** The box to write in: one to twelve lines, Enter sends, Shift Enter makes a line. */
export const Composer = React.forwardRef<HTMLTextAreaElement, ComposerProps>(
  function Composer(props, ref) {
    const { text, onText, onSend, onStop, onRecall, running, offline, blocked, children } = props;
    const { completion, chips } = props;
    const { t } = useWords();
    const own = useRef<HTMLTextAreaElement | null>(null);
    const empty = !text.trim();
    const command = /^!\s*\S/.test(text);
    const sendable = !empty && !running && !blocked;

    useLayoutEffect(() => {
      const box = own.current;
      // browsers of before 2025 need help to grow a text box
      if (box && !globalThis.CSS?.supports?.('field-sizing', 'content')) {
        box.style.height = 'auto';
        box.style.height = `${box.scrollHeight}px`;
      }
    }, [text]);

    const onKeyDown = (event: React.KeyboardEvent<HTMLTextAreaElement>): void => {
      if (isComposing(event.nativeEvent) || completion?.key(event)) {
        return;
      }
      if (
        event.key === 'Enter' &&
        !event.shiftKey &&
        !event.ctrlKey &&
        !event.metaKey &&
        !event.altKey
      ) {
        event.preventDefault();
        if (sendable) {
          onSend();
        }
      } else if (event.key === 'Enter' && event.shiftKey && !event.ctrlKey && !event.metaKey) {
        // JupyterLab prevents the browser's own line break in everything that is inside of a cell
        event.preventDefault();
        const { selectionStart, selectionEnd } = event.currentTarget;
        typeInto(event.currentTarget, '\n', selectionStart, selectionEnd);
        onText(event.currentTarget.value);
      } else if (event.key === 'ArrowUp' && text === '') {
        event.preventDefault();
        onRecall();
      }
    };

    const placeholder = offline
      ? t('Ask. It will be sent later')
      : running
        ? t('Ask, or add to what it is doing')
        : t('Ask, or type / @ # or !');
    const hint = empty
      ? undefined
      : running
        ? t('A turn runs. Send this when it has ended, or stop it first.')
        : blocked;
    return (
      <form
        className={command ? 'ahp-Composer is-command' : 'ahp-Composer'}
        aria-label={t('Message')}
        onSubmit={event => {
          event.preventDefault();
          if (sendable) {
            onSend();
          }
        }}
      >
        {chips && <div className="ahp-Composer-chips">{chips}</div>}
        <textarea
          {...completion?.box}
          ref={node => {
            own.current = node;
            if (typeof ref === 'function') {
              ref(node);
            } else if (ref) {
              ref.current = node;
            }
          }}
          className="ahp-Composer-text"
          rows={1}
          aria-label={t('Message')}
          placeholder={placeholder}
          dir="auto"
          spellCheck={!command}
          value={text}
          onChange={event => {
            onText(event.target.value);
            if (!isComposing(event.nativeEvent as InputEvent)) {
              completion?.typed(event.target);
            }
          }}
          onKeyDown={onKeyDown}
        />
        {completion?.popup}
        {hint && <div className="ahp-Composer-hint">{hint}</div>}
        <div className="ahp-Composer-bar">
          {children}
          <span className="ahp-grow" />
          {running ? (
            <button type="button" className="ahp-Btn is-small ahp-Stop" onClick={onStop}>
              <Icon name="stop" />
              {t('Stop')}
              <kbd className="ahp-Kbd" aria-hidden="true">
                Esc Esc
              </kbd>
            </button>
          ) : (
            <button
              type="submit"
              className={sendable ? 'ahp-Btn is-primary ahp-SendBtn' : 'ahp-Btn ahp-SendBtn'}
              aria-label={offline ? t('Send later') : t('Send')}
              aria-disabled={!sendable}
              title={offline ? t('Send later') : `${t('Send')} (Enter)`}
            >
              <Icon name={offline ? 'clock' : 'send'} />
            </button>
          )}
        </div>
      </form>
    );
  }
);
