import React, { useEffect, useRef, useState } from 'react';
import type { ToolCallState, ToolContent } from '../ahp';
import { useWords } from './host';
import { Icon } from './Icon';
import { Picture } from './Picture';
import { isDrawn } from './pictures';
import { Reference } from './Reference';
import { Terminal } from './Terminal';
import { revealed, textOf } from './text';
import { isWorker, WorkerRow } from './WorkerRow';

function inputOf(call: ToolCallState): string {
  if (call.status === 'streaming') {
    return call.partialInput ?? '';
  }
  const input = call.toolInput;
  return input === undefined ? '' : typeof input === 'string' ? pretty(input) : input.uri;
}

/** JSON as people read it; anything else as it came. */
function pretty(text: string): string {
  if (!/^\s*[[{]/.test(text)) {
    return text;
  }
  try {
    const value = JSON.parse(text) as unknown;
    return commandIn(value) ?? JSON.stringify(value, null, 2);
  } catch {
    return text; // not JSON after all
  }
}

/** The one thing that a terminal's tool is given. */
function commandIn(value: unknown): string | undefined {
  const given = value && typeof value === 'object' ? Object.entries(value) : [];
  const [key, text] = given.length === 1 ? given[0]! : [];
  return key === 'command' && typeof text === 'string' ? text : undefined;
}

function Content(props: { content: ToolContent; running: boolean }): React.ReactElement | null {
  const { t } = useWords();
  const { content } = props;
  switch (content.type) {
    case 'text':
      return (
        <div className="ahp-Term">
          <pre tabIndex={0}>{content.text}</pre>
        </div>
      );
    case 'embeddedResource':
      return isDrawn(content.contentType) ? (
        <Picture source={content} name={t('Picture that the tool made')} />
      ) : (
        <p>{t('Content of type %1', content.contentType)}</p>
      );
    case 'resource':
      return <Reference content={content} />;
    case 'fileEdit':
      return (
        <p>
          {t('Edited')} <code>{content.after?.uri ?? content.before?.uri ?? ''}</code>{' '}
          {content.diff && (
            <span className="ahp-num">
              <span className="ahp-ok">+{content.diff.added ?? 0}</span>{' '}
              <span className="ahp-bad">−{content.diff.removed ?? 0}</span>
            </span>
          )}
        </p>
      );
    case 'terminal':
      return <Terminal content={content} running={props.running} />;
    case 'subagent':
      return null; // a row of its own, under the call
    default:
      return <p>{t('Content that this version cannot show (%1)', content.type)}</p>;
  }
}

function Mark(props: { call: ToolCallState }): React.ReactElement {
  const { t } = useWords();
  const { call } = props;
  switch (call.status) {
    case 'completed':
      return call.success ? (
        <Icon name="check" className="ahp-ok" label={t('Done')} />
      ) : (
        <Icon name="cross" className="ahp-bad" label={t('Failed')} />
      );
    case 'cancelled':
      return call.reason === 'skipped' ? (
        <Icon name="stop" className="ahp-muted" label={t('Stopped')} />
      ) : (
        <Icon name="cross" className="ahp-muted" label={t('Denied')} />
      );
    case 'pending-confirmation':
    case 'pending-result-confirmation':
    case 'auth-required':
      return <Icon name="shield" className="ahp-warn" label={t('Waits for an answer')} />;
    default:
      return <Icon name="spinner" label={t('Running')} />;
  }
}

/** One tool call: one line that unfolds to its input and its result, and one for the worker that it runs. */
export const ToolCall = React.memo(function ToolCall(props: { call: ToolCallState }) {
  const { call } = props;
  const { t } = useWords();
  const running = call.status === 'running';
  const all = 'content' in call ? call.content : undefined;
  const workers = all?.filter(isWorker) ?? [];
  const content = workers.length ? all?.filter(each => !isWorker(each)) : all;
  const touched = useRef(false);
  // a person's own command is all that its turn has to say: it stays open
  const own = call._meta?.['jupyter-ahp.command'] === true;
  const shows = (running || own) && !!content?.length;
  const [open, setOpen] = useState(own);
  useEffect(() => {
    // a running call opens by itself and folds when it ends, unless somebody took it in hand
    if (!touched.current) {
      setOpen(shows);
    }
  }, [shows]);
  const done = call.status === 'completed' || call.status === 'pending-result-confirmation';
  const message =
    textOf(done ? call.pastTenseMessage : call.invocationMessage) ||
    call.intention ||
    call.toolName;
  const input = inputOf(call);
  const fold = (
    <details
      className="ahp-Fold ahp-ToolCall"
      open={open}
      data-status={call.status}
      onToggle={event => setOpen(event.currentTarget.open)}
    >
      <summary onClick={() => (touched.current = true)}>
        <Mark call={call} />
        <span className="ahp-clip">
          <b>{call.displayName || call.toolName}</b>{' '}
          <span dir="auto">{message === call.displayName ? '' : message}</span>
        </span>
        <span className="ahp-grow" />
        {call.status === 'cancelled' && (
          <span className="ahp-num">{call.reason === 'skipped' ? t('stopped') : t('denied')}</span>
        )}
        {call.status === 'completed' && !call.success && (
          <span className="ahp-num ahp-bad">{t('failed')}</span>
        )}
        <Icon name="chevron" className="ahp-Chevron" />
      </summary>
      {open && (
        <div className="ahp-Fold-body">
          {input && (
            <pre className="ahp-Cmd" tabIndex={0} aria-label={t('Input')}>
              {revealed(input)}
            </pre>
          )}
          {content?.map((item, index) => (
            <Content key={index} content={item} running={running} />
          ))}
          {'error' in call && call.error && <p className="ahp-bad">{call.error.message}</p>}
          {call.status === 'cancelled' && call.reasonMessage && <p>{textOf(call.reasonMessage)}</p>}
          {!input && !content?.length && call.status === 'completed' && call.success && (
            <p>{t('No input and no output')}</p>
          )}
        </div>
      )}
    </details>
  );
  return workers.length ? (
    <>
      {fold}
      {workers.map(worker => (
        <WorkerRow key={worker.resource} content={worker} />
      ))}
    </>
  ) : (
    fold
  );
});
