import React, { useId, useRef, useState } from 'react';
import type {
  ChatInputAnswer,
  ChatInputQuestion,
  ChatInputRequest,
  ChatInputValue,
  InputResponse
} from '../ahp';
import { type Tell, useAnswers } from './answers';
import { useWords } from './host';
import { Icon } from './Icon';
import { useFocusAfter } from './needs';
import { textOf } from './text';
import type { Words } from './words';

function isAnswered(value: ChatInputValue | undefined): boolean {
  if (!value) {
    return false;
  }
  if (value.kind === 'text') {
    return value.value.trim() !== '';
  }
  if (value.kind === 'selected') {
    return value.value !== '' || !!value.freeformValues?.[0]?.trim();
  }
  return (
    value.kind !== 'selected-many' || value.value.length > 0 || !!value.freeformValues?.[0]?.trim()
  );
}

/** What is wrong with an answer, for people; undefined when nothing is. */
function wrongWith(
  question: ChatInputQuestion,
  value: ChatInputValue | undefined,
  { t }: Words
): string | undefined {
  const name = question.title || question.message;
  if (!isAnswered(value)) {
    return question.required ? t('%1 must be answered.', name) : undefined;
  }
  if (question.kind === 'multi-select' && value?.kind === 'selected-many') {
    const count = value.value.length + (value.freeformValues?.[0]?.trim() ? 1 : 0);
    const { min = 0, max = Infinity } = question;
    return count < min
      ? t('%1: choose at least %2.', name, min)
      : count > max
        ? t('%1: choose at most %2.', name, max)
        : undefined;
  }
  if (question.kind === 'text' && value?.kind === 'text') {
    const { min = 0, max = Infinity } = question;
    const { length } = value.value;
    return length < min
      ? t('%1: at least %2 characters.', name, min)
      : length > max
        ? t('%1: at most %2 characters.', name, max)
        : undefined;
  }
  if (value?.kind === 'number' && (question.kind === 'number' || question.kind === 'integer')) {
    const { min = -Infinity, max = Infinity } = question;
    return question.kind === 'integer' && !Number.isInteger(value.value)
      ? t('%1: a whole number.', name)
      : value.value < min
        ? t('%1: at least %2.', name, min)
        : value.value > max
          ? t('%1: at most %2.', name, max)
          : undefined;
  }
  return undefined;
}

/** What a browser can help with in a text of that format. */
const INPUTS: Readonly<Record<string, string>> = {
  email: 'email',
  uri: 'url',
  date: 'date'
};

interface FieldProps {
  question: ChatInputQuestion;
  value: ChatInputValue | undefined;
  onChange: (value: ChatInputValue | undefined) => void;
  disabled: boolean;
}

function Options({ question, value, onChange, disabled }: FieldProps): React.ReactElement | null {
  const { t } = useWords();
  const name = useId();
  if (question.kind !== 'single-select' && question.kind !== 'multi-select') {
    return null;
  }
  const many = question.kind === 'multi-select';
  const chosen: readonly string[] =
    value?.kind === 'selected-many'
      ? value.value
      : value?.kind === 'selected' && value.value
        ? [value.value]
        : [];
  const own =
    value?.kind === 'selected' || value?.kind === 'selected-many'
      ? (value.freeformValues?.[0] ?? '')
      : '';
  const say = (ids: readonly string[], free: string): void => {
    const freeform = free ? { freeformValues: [free] } : {};
    onChange(
      many
        ? { kind: 'selected-many', value: ids, ...freeform }
        : { kind: 'selected', value: ids[0] ?? '', ...freeform }
    );
  };
  return (
    <>
      {question.options.map(option => (
        <label key={option.id} className="ahp-Option">
          <input
            type={many ? 'checkbox' : 'radio'}
            name={name}
            checked={chosen.includes(option.id)}
            disabled={disabled}
            onChange={event => {
              const rest = chosen.filter(id => id !== option.id);
              say(
                many ? (event.target.checked ? [...rest, option.id] : rest) : [option.id],
                many ? own : ''
              );
            }}
          />
          <span>
            <bdi>{option.label}</bdi>
            {(option.recommended || option.description) && (
              <small>
                {option.recommended && t('Suggested.')} <bdi>{option.description}</bdi>
              </small>
            )}
          </span>
        </label>
      ))}
      {question.allowFreeformInput && (
        <input
          className="ahp-Field"
          aria-label={t('Something else')}
          placeholder={t('Something else')}
          value={own}
          disabled={disabled}
          dir="auto"
          onChange={event => say(many ? chosen : [], event.target.value)}
        />
      )}
    </>
  );
}

function Field(props: FieldProps): React.ReactElement {
  const { question, value, onChange, disabled } = props;
  const { t } = useWords();
  const id = useId();
  const label = (
    <>
      <bdi>{question.title || question.message}</bdi>{' '}
      <small>{question.required ? t('must be answered') : t('optional')}</small>
      {question.title && question.message && (
        <small className="ahp-block">
          <bdi>{question.message}</bdi>
        </small>
      )}
    </>
  );
  switch (question.kind) {
    case 'single-select':
    case 'multi-select':
      return (
        <fieldset>
          <legend>{label}</legend>
          <Options {...props} />
        </fieldset>
      );
    case 'boolean':
      return (
        <label className="ahp-Option">
          <input
            type="checkbox"
            checked={value?.kind === 'boolean' && value.value}
            disabled={disabled}
            onChange={event => onChange({ kind: 'boolean', value: event.target.checked })}
          />
          <span>{label}</span>
        </label>
      );
    case 'number':
    case 'integer':
      return (
        <div>
          <label className="ahp-Label" htmlFor={id}>
            {label}
          </label>
          <input
            className="ahp-Field"
            id={id}
            type="number"
            step={question.kind === 'integer' ? 1 : 'any'}
            min={question.min}
            max={question.max}
            value={value?.kind === 'number' ? value.value : ''}
            disabled={disabled}
            onChange={event =>
              onChange(
                Number.isNaN(event.target.valueAsNumber)
                  ? undefined
                  : { kind: 'number', value: event.target.valueAsNumber }
              )
            }
          />
        </div>
      );
    default:
      return (
        <div>
          <label className="ahp-Label" htmlFor={id}>
            {label}
          </label>
          <input
            className="ahp-Field"
            id={id}
            type={(question.kind === 'text' && INPUTS[question.format ?? '']) || 'text'}
            dir="auto"
            value={value?.kind === 'text' ? value.value : ''}
            disabled={disabled}
            onChange={event => onChange({ kind: 'text', value: event.target.value })}
          />
        </div>
      );
  }
}

interface Props {
  request: ChatInputRequest;
  /** Absent: this reader may see the question and not answer it. */
  onAnswer?: (response: InputResponse, answers?: Record<string, ChatInputAnswer>) => Promise<void>;
  /** Told what stands in the form before it is sent, where one may answer. */
  onDraft?: Tell;
}

/** What the agent asks: one field set for each question. */
export function Question({ request, onAnswer, onDraft }: Props): React.ReactElement {
  const words = useWords();
  const { t } = words;
  const id = useId();
  const card = useRef<HTMLElement>(null);
  useFocusAfter(card);
  const questions = request.questions ?? [];
  const form = useAnswers(request, onDraft);
  const [state, setState] = useState<{ sending?: boolean; problem?: string }>({});

  const send = (response: InputResponse): void => {
    if (!onAnswer) {
      return;
    }
    const wrong = questions.flatMap(each => wrongWith(each, form.valueOf(each), words) ?? []);
    if (response === 'accept' && wrong.length) {
      setState({ problem: wrong.join(' ') });
      return;
    }
    const answers: Record<string, ChatInputAnswer> = {};
    for (const question of questions) {
      const value = form.valueOf(question);
      answers[question.id] =
        value && isAnswered(value) ? { state: 'submitted', value } : { state: 'skipped' };
    }
    card.current?.focus(); // the button that was pressed is about to go
    setState({ sending: true });
    onAnswer(response, response === 'accept' ? answers : undefined).catch((error: Error) =>
      setState({ problem: `${t('Your answer did not arrive.')} ${error.message}` })
    );
  };

  const title = textOf(request.message) || t('The agent asks');
  return (
    <section
      ref={card}
      className="ahp-Card is-question"
      role="group"
      tabIndex={-1}
      aria-labelledby={id}
      data-lm-suppress-shortcuts="true"
    >
      <header>
        <Icon name="help" />
        <h3 id={id}>
          <bdi>{title}</bdi>
        </h3>
      </header>
      {request.url && /^https?:/i.test(request.url) && (
        <a href={request.url} target="_blank" rel="noopener noreferrer">
          {request.url}
        </a>
      )}
      <form
        className="ahp-Form"
        noValidate
        onSubmit={event => {
          event.preventDefault();
          send('accept');
        }}
      >
        {questions.map(question => (
          <Field
            key={question.id}
            question={question}
            value={form.valueOf(question)}
            onChange={value => form.set(question, value)}
            disabled={!onAnswer || state.sending === true}
          />
        ))}
        {form.shared && onAnswer && (
          <p className="ahp-sub">
            <Icon name="edit" /> {t('Somebody else is filling this in, too.')}
          </p>
        )}
        {state.problem && (
          <p role="alert" className="ahp-bad">
            {state.problem}
          </p>
        )}
        {!onAnswer ? (
          <p className="ahp-sub">{t('Waits for someone who may answer.')}</p>
        ) : state.sending ? (
          <div className="ahp-Actions" role="status">
            <Icon name="spinner" />
            {t('Sending')}
          </div>
        ) : (
          <div className="ahp-Actions">
            <button type="submit" className="ahp-Btn is-primary">
              {t('Answer')}
            </button>
            <button type="button" className="ahp-Btn is-quiet" onClick={() => send('decline')}>
              {t('Skip')}
            </button>
          </div>
        )}
      </form>
    </section>
  );
}
