import React, { useId, useRef, useState } from 'react';
import type { PendingConfirmationToolCall, PendingResultToolCall, ToolCallOption } from '../ahp';
import { useWords } from './host';
import { EditDiff } from './EditDiff';
import { Icon } from './Icon';
import { editableInput, isInputLike, shownInput } from './input';
import { useFocusAfter } from './needs';
import { revealed, textOf } from './text';

export interface ApprovalAnswer {
  readonly approved: boolean;
  readonly option?: string;
  /** A word to the model with a denial. */
  readonly reason?: string;
  /** What it is to be given instead. */
  readonly input?: string;
}

interface Props {
  call: PendingConfirmationToolCall | PendingResultToolCall;
  /** Absent: this reader may see the question and not answer it. */
  onAnswer?: (answer: ApprovalAnswer) => Promise<void>;
}

/**
 * May this call run (or its result be used)? All of the command is shown, and the answers in the agent's order and
 * words. The pressed answer says that it is being sent until the host has it; one that did not arrive can be sent again.
 */
export function Approval({ call, onAnswer }: Props): React.ReactElement {
  const { t } = useWords();
  const id = useId();
  const card = useRef<HTMLElement>(null);
  useFocusAfter(card);
  const [denying, setDenying] = useState<ToolCallOption>();
  const [reason, setReason] = useState('');
  const [sending, setSending] = useState<{ label: string; failed?: string; again: () => void }>();
  const pending = call.status === 'pending-confirmation' ? call : undefined;
  const options: readonly ToolCallOption[] = pending?.options?.length
    ? pending.options
    : [
        { id: '', label: pending ? t('Allow once') : t('Use the result'), kind: 'approve' },
        { id: '', label: pending ? t('Deny…') : t('Do not use it'), kind: 'deny' }
      ];
  const input =
    call.toolInput === undefined || typeof call.toolInput === 'string'
      ? call.toolInput
      : call.toolInput.uri;
  const command = revealed(shownInput(input || textOf(call.invocationMessage)));
  const editable =
    pending?.editable && typeof call.toolInput === 'string' ? call.toolInput : undefined;
  const [edited, setEdited] = useState<string>();
  const spoiled = edited !== undefined && editable !== undefined && !isInputLike(edited, editable);
  const risk = pending?.riskAssessment;
  const destructive = !!call._meta?.['destructiveHint'];

  const send = (option: ToolCallOption, word?: string): void => {
    const approved = option.kind === 'approve';
    if (!onAnswer || (approved && spoiled)) {
      return;
    }
    const changed =
      approved && edited !== undefined && edited !== editableInput(editable ?? '')
        ? edited
        : undefined;
    const attempt = (): void => {
      card.current?.focus(); // the button that was pressed is about to go
      setSending({ label: option.label, again: attempt });
      onAnswer({
        approved,
        option: option.id || undefined,
        reason: word || undefined,
        ...(changed === undefined ? {} : { input: changed })
      }).catch((error: Error) =>
        setSending({ label: option.label, failed: error.message, again: attempt })
      );
    };
    attempt();
  };
  const choose = (option: ToolCallOption): void => {
    if (option.kind === 'deny' && pending) {
      setDenying(option);
    } else {
      send(option);
    }
  };
  const onKeyDown = (event: React.KeyboardEvent): void => {
    const option = options[Number(event.key) - 1];
    const field = (event.target as HTMLElement).closest('input, textarea');
    if (
      option &&
      !field &&
      !sending &&
      !denying &&
      !event.ctrlKey &&
      !event.metaKey &&
      !event.altKey
    ) {
      event.preventDefault();
      choose(option);
    }
  };

  return (
    <section
      ref={card}
      className="ahp-Card is-ask"
      role="group"
      tabIndex={-1}
      aria-labelledby={id}
      aria-describedby={`${id}-command`}
      aria-busy={!!sending && !sending.failed}
      data-lm-suppress-shortcuts="true"
      onKeyDown={onKeyDown}
    >
      <header>
        <Icon name="shield" />
        <h3 id={id}>
          <bdi>
            {textOf(pending?.confirmationTitle) ||
              (pending ? t('Allow this call?') : t('Use the result of this call?'))}
          </bdi>
        </h3>
        <p className="ahp-sub">
          <bdi>{t('The agent wants to use %1.', call.displayName || call.toolName)}</bdi>
        </p>
      </header>
      {edited === undefined ? (
        <pre className="ahp-Cmd" id={`${id}-command`} tabIndex={0}>
          {command}
        </pre>
      ) : (
        <textarea
          className="ahp-Field ahp-mono ahp-CmdEdit"
          id={`${id}-command`}
          aria-label={t('What it is to be given')}
          aria-invalid={spoiled}
          spellCheck={false}
          autoFocus
          rows={Math.min(16, edited.split('\n').length + 1)}
          value={edited}
          onChange={event => setEdited(event.target.value)}
          onKeyDown={event => {
            if (event.key === 'Escape') {
              event.stopPropagation();
              setEdited(undefined);
              card.current?.focus();
            }
          }}
        />
      )}
      {spoiled && (
        <p className="ahp-sub ahp-bad" role="alert">
          {t('This is no valid JSON, so it cannot be allowed like this.')}
        </p>
      )}
      {command.includes('‹U+') && (
        <p className="ahp-sub ahp-warn">
          {t('Holds characters that cannot be seen or that turn text around.')}
        </p>
      )}
      {pending?.edits?.items.map((edit, index) => (
        <EditDiff key={index} edit={edit} open={index === 0} />
      ))}
      {call.intention && <p className="ahp-sub">{call.intention}</p>}
      {risk?.status === 'complete' && (
        <dl className="ahp-Facts">
          <dt>{t('Risk')}</dt>
          <dd>{risk.reason}</dd>
        </dl>
      )}
      {!onAnswer ? (
        <p className="ahp-sub">{t('Waits for someone who may answer.')}</p>
      ) : sending?.failed ? (
        <div className="ahp-Actions" role="alert">
          <Icon name="warn" className="ahp-bad" />
          <span className="ahp-grow ahp-bad">
            {t('Your answer did not arrive.')} {sending.failed}
          </span>
          <button type="button" className="ahp-Btn is-primary" onClick={sending.again}>
            {t('Try again')}
          </button>
        </div>
      ) : sending ? (
        <div className="ahp-Actions" role="status">
          <Icon name="spinner" />
          {t('Sending: %1', sending.label)}
        </div>
      ) : denying ? (
        <form
          onSubmit={event => {
            event.preventDefault();
            send(denying, reason.trim());
          }}
          onKeyDown={event => {
            if (event.key === 'Escape') {
              event.stopPropagation();
              setDenying(undefined);
            }
          }}
        >
          <label className="ahp-Label" htmlFor={`${id}-why`}>
            {t('Why not?')} <small>{t('the model reads this; may stay empty')}</small>
          </label>
          <input
            className="ahp-Field"
            id={`${id}-why`}
            autoFocus
            value={reason}
            onChange={event => setReason(event.target.value)}
          />
          <div className="ahp-Actions">
            <button type="submit" className="ahp-Btn is-primary">
              {t('Deny')}
            </button>
            <button
              type="button"
              className="ahp-Btn is-quiet"
              onClick={() => setDenying(undefined)}
            >
              {t('Back')}
            </button>
          </div>
        </form>
      ) : (
        <div className="ahp-Actions ahp-Answers" role="group" aria-label={t('Answer')}>
          {options.map((option, index) => (
            <button
              key={index}
              type="button"
              className={index === 0 && !destructive ? 'ahp-Btn is-primary' : 'ahp-Btn'}
              aria-keyshortcuts={String(index + 1)}
              aria-disabled={option.kind === 'approve' && spoiled}
              onClick={() => choose(option)}
            >
              {option.label}
              <kbd className="ahp-Kbd" aria-hidden="true">
                {index + 1}
              </kbd>
            </button>
          ))}
          {editable !== undefined && (
            <button
              type="button"
              className="ahp-Btn is-quiet"
              aria-pressed={edited !== undefined}
              onClick={() => setEdited(edited === undefined ? editableInput(editable) : undefined)}
            >
              <Icon name="edit" />
              {edited === undefined ? t('Change it') : t('Leave it as it was')}
            </button>
          )}
        </div>
      )}
    </section>
  );
}
