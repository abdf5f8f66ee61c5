import React, { useId, useLayoutEffect, useRef, useState } from 'react';
import type { Completion } from './completion';
import { useCommandPrefix } from './connection';
import { dropped, filesIn } from './files';
import { useWords } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { isCommand } from './text';
import { typeInto } from './typing';

export interface ComposerProps {
  text: string;
  onText: (text: string) => void;
  /** Sends it, or queues it while a turn runs. */
  onSend: () => void;
  /** Hands it to the running turn; absent where that cannot be. */
  onSteer?: () => void;
  /** Absent where one may not. */
  onStop?: () => void;
  /** It was pressed, and the turn has not ended. */
  stopping?: boolean;
  /** ↑ in an empty box: what waits or was said last comes back. */
  onRecall: () => void;
  /** Attaches files: pasted, dropped or chosen. Absent where that cannot be. */
  onFiles?: (files: readonly File[], refused?: readonly string[]) => void;
  /** Escape has something to leave. */
  onEscape?: () => void;
  running: boolean;
  offline: boolean;
  /** What is typed takes the place of something that was said: not while a turn runs. */
  editing?: boolean;
  /** Something that goes along is on its way here: nothing is sent without it. */
  busy?: boolean;
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
    const { text, onText, onSend, onSteer, onStop, onRecall, onFiles, onEscape } = props;
    const {
      running,
      offline,
      stopping = false,
      busy = false,
      editing = false,
      completion,
      chips,
      children
    } = props;
    const words = useWords();
    const { t } = words;
    const own = useRef<HTMLTextAreaElement | null>(null);
    const chooser = useRef<HTMLInputElement>(null);
    const [over, setOver] = useState(false);
    const hintId = useId();
    const empty = !text.trim() && !chips;
    const prefix = useCommandPrefix();
    const command = isCommand(text, prefix);
    const sendable = !empty && !busy && !(editing && running);
    const queues = running && !offline && !editing;
    // a command is run, not read
    const steers = queues && !command && onSteer !== undefined;

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
      const control = event.ctrlKey || event.metaKey;
      if (event.key === 'Enter' && !event.shiftKey && !event.altKey) {
        event.preventDefault();
        if (sendable && control && queues) {
          if (steers) {
            onSteer?.();
          }
        } else if (sendable) {
          onSend();
        }
      } else if (event.key === 'Enter' && event.shiftKey && !control) {
        // JupyterLab prevents the browser's own line break in everything that is inside of a cell
        event.preventDefault();
        const { selectionStart, selectionEnd } = event.currentTarget;
        typeInto(event.currentTarget, '\n', selectionStart, selectionEnd);
        onText(event.currentTarget.value);
      } else if (event.key === 'ArrowUp' && text === '') {
        event.preventDefault();
        onRecall();
      } else if (event.key === 'Escape' && onEscape) {
        event.stopPropagation();
        onEscape();
      }
    };

    const placeholder = offline
      ? t('Ask. It will be sent later')
      : running
        ? t('Ask, or add to what it is doing')
        : prefix
          ? t('Ask, or type / @ # or %1', prefix)
          : t('Ask, or type / @ or #');
    const hint =
      empty || offline || !running
        ? undefined
        : editing
          ? t('A turn runs. Stop it, or wait, to send what you edited.')
          : steers
            ? t('Queue sends it when this turn ends. Steer hands it over at the next step.')
            : t('Queue sends it when this turn ends.');
    return (
      <form
        className={`ahp-Composer${command ? ' is-command' : ''}${over ? ' is-active' : ''}`}
        aria-label={t('Message')}
        onDragOver={event => {
          if (onFiles && event.dataTransfer.types.includes('Files')) {
            event.preventDefault();
            event.dataTransfer.dropEffect = 'copy';
            setOver(true);
          }
        }}
        onDragLeave={() => setOver(false)}
        onDrop={event => {
          setOver(false);
          if (onFiles && event.dataTransfer.types.includes('Files')) {
            event.preventDefault();
            event.stopPropagation();
            const { files, refused } = dropped(event.dataTransfer, words);
            onFiles(files, refused);
          }
        }}
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
          aria-describedby={hint ? hintId : undefined}
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
          onPaste={event => {
            const files = onFiles ? filesIn(event.clipboardData) : [];
            if (files.length > 0) {
              event.preventDefault();
              onFiles?.(files);
            }
          }}
          onKeyDown={onKeyDown}
        />
        {completion?.popup}
        {hint && (
          <div className="ahp-Composer-hint" id={hintId}>
            {hint}
          </div>
        )}
        <div className="ahp-Composer-bar">
          {onFiles && !command && (
            <>
              <IconButton
                icon="attach"
                label={t('Attach files')}
                onClick={() => chooser.current?.click()}
              />
              <input
                ref={chooser}
                type="file"
                multiple
                hidden
                onChange={event => {
                  onFiles([...(event.target.files ?? [])]);
                  event.target.value = ''; // the same file can be chosen again
                }}
              />
            </>
          )}
          {!(queues && !empty) && children}
          {running && !offline && !empty && onStop && (
            <IconButton
              icon={stopping ? 'spinner' : 'stop'}
              className="ahp-StopBtn"
              label={stopping ? t('Stopping the turn') : t('Stop the turn')}
              shortcut="Esc Esc"
              onClick={onStop}
            />
          )}
          <span className="ahp-grow" />
          {running && !offline && empty ? (
            onStop && (
              <button type="button" className="ahp-Btn is-small ahp-Stop" onClick={onStop}>
                <Icon name={stopping ? 'spinner' : 'stop'} />
                {stopping ? t('Stopping') : t('Stop')}
                <kbd className="ahp-Kbd" aria-hidden="true">
                  Esc Esc
                </kbd>
              </button>
            )
          ) : queues ? (
            <>
              {steers && (
                <button
                  type="button"
                  className="ahp-Btn is-small"
                  aria-keyshortcuts="Control+Enter"
                  onClick={onSteer}
                >
                  <Icon name="steer" />
                  {t('Steer')}
                  <kbd className="ahp-Kbd" aria-hidden="true">
                    Ctrl ↵
                  </kbd>
                </button>
              )}
              <button
                type="submit"
                className="ahp-Btn is-small is-primary"
                aria-keyshortcuts="Enter"
              >
                <Icon name="queue" />
                {t('Queue')}
                <kbd className="ahp-Kbd" aria-hidden="true">
                  ↵
                </kbd>
              </button>
            </>
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
