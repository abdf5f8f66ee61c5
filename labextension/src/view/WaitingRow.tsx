import React, { useLayoutEffect, useRef } from 'react';
import type { Message } from '../ahp';
import { isComposing } from './Composer';
import { useCommandPrefix } from './connection';
import { useWords } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { isCommand } from './text';
import { typeInto } from './typing';

/** What can be done with a message that waits; what is absent cannot. */
export interface WaitingActions {
  /** What sending it now does: it steers the turn, takes its place, or begins one. */
  readonly send?: {
    readonly label: string;
    readonly does: 'steer' | 'stop' | 'start';
    run(): void;
  };
  edit?(): void;
  remove?(): void;
  /** Moves it by so many places. */
  move?(by: number): void;
}

interface Props {
  id: string;
  message: Message;
  /** Who wrote it, when that is not the reader. */
  name: string | undefined;
  kind: 'steering' | 'queued';
  /** When it goes, or why it does not. */
  when: string | undefined;
  /** From 1, in the queue of so many. */
  position: number;
  count: number;
  actions: WaitingActions;
  /** The words as they are being changed, while they are. */
  edited: string | undefined;
  onEdit: (text: string) => void;
  onSave: () => void;
  onLeave: () => void;
  dragged: boolean;
  onGrab: (event: React.PointerEvent<HTMLElement>) => void;
}

/** One message that waits: what it says, when it goes, and what can be done with it until then. */
export function WaitingRow(props: Props): React.ReactElement {
  const { id, message, name, kind, when, position, count, actions, edited, dragged } = props;
  const { t } = useWords();
  const prefix = useCommandPrefix();
  const command = prefix && isCommand(message.text, prefix) ? prefix : undefined;
  const editing = edited !== undefined;

  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (editing) {
      return;
    }
    if (event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
      actions.move?.(event.key === 'ArrowUp' ? -1 : 1);
    } else if (event.key === 'Delete' && !event.altKey && !event.ctrlKey && !event.metaKey) {
      actions.remove?.();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <li
      className={dragged ? 'ahp-Pend is-dragged' : 'ahp-Pend'}
      data-waiting={id}
      onKeyDown={onKeyDown}
    >
      {kind === 'steering' ? (
        <Icon name="steer" className="ahp-brand" />
      ) : actions.move && !editing ? (
        <IconButton
          icon="drag"
          className="ahp-Handle"
          label={t('Move, position %1 of %2', position, count)}
          shortcut="Alt ↑ ↓"
          onPointerDown={props.onGrab}
        />
      ) : (
        <Icon name="clock" className="ahp-muted" />
      )}
      {editing ? (
        <Edited text={edited} onText={props.onEdit} onSave={props.onSave} onLeave={props.onLeave} />
      ) : (
        <span className="ahp-grow">
          <span className={command ? 'ahp-clip ahp-mono' : 'ahp-clip'} dir="auto">
            {name && (
              <b>
                <bdi>{name}</bdi>:{' '}
              </b>
            )}
            {command ? (
              <>
                <b className="ahp-brand">{command}</b>
                {message.text.slice(command.length)}
              </>
            ) : (
              message.text
            )}
          </span>
          {when && <small>{when}</small>}
        </span>
      )}
      {editing ? (
        <>
          <IconButton icon="check" label={t('Save')} shortcut="Enter" onClick={props.onSave} />
          <IconButton
            icon="cross"
            label={t('Leave it as it was')}
            shortcut="Esc"
            onClick={props.onLeave}
          />
        </>
      ) : (
        <>
          {actions.edit && <IconButton icon="edit" label={t('Edit')} onClick={actions.edit} />}
          {actions.send &&
            (actions.send.does === 'steer' ? (
              <IconButton icon="send" label={actions.send.label} onClick={actions.send.run} />
            ) : (
              <button type="button" className="ahp-Btn is-small" onClick={actions.send.run}>
                {actions.send.label}
              </button>
            ))}
          {actions.remove && (
            <IconButton
              icon="cross"
              label={kind === 'steering' ? t('Take back') : t('Remove')}
              shortcut="Delete"
              onClick={actions.remove}
            />
          )}
        </>
      )}
    </li>
  );
}

function Edited(props: {
  text: string;
  onText: (text: string) => void;
  onSave: () => void;
  onLeave: () => void;
}): React.ReactElement {
  const { text, onText, onSave, onLeave } = props;
  const { t } = useWords();
  const box = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    box.current?.focus();
    box.current?.setSelectionRange(box.current.value.length, box.current.value.length);
  }, []);
  return (
    <textarea
      ref={box}
      className="ahp-Field ahp-Pend-text"
      rows={Math.min(6, text.split('\n').length)}
      dir="auto"
      aria-label={t('Waiting message')}
      value={text}
      onChange={event => onText(event.target.value)}
      onKeyDown={event => {
        if (isComposing(event.nativeEvent)) {
          return;
        }
        if (event.key === 'Enter' && event.shiftKey) {
          // JupyterLab prevents the browser's own line break in everything that is inside of a cell
          const { selectionStart, selectionEnd } = event.currentTarget;
          typeInto(event.currentTarget, '\n', selectionStart, selectionEnd);
          onText(event.currentTarget.value);
        } else if (event.key === 'Enter') {
          onSave();
        } else if (event.key === 'Escape') {
          onLeave();
        } else {
          return;
        }
        event.preventDefault();
        event.stopPropagation();
      }}
    />
  );
}
