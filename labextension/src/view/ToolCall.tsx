import React, { useEffect, useRef, useState } from 'react';
import type { ToolCallState, ToolContent } from '../ahp';
import { EditDiff } from './EditDiff';
import { useWords } from './host';
import { Icon } from './Icon';
import { shownInput } from './input';
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
  return input === undefined ? '' : typeof input === 'string' ? shownInput(input) : input.uri;
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
      return <EditDiff edit={content} />;
    case 'terminal':
      return <Terminal content={content} running={props.running} />;
    case 'subagent':
      return null; // a row of its own, under the call
    default:
      return <p>{t('Content that this version cannot show (%1)', content.type)}</p>;
  }
}

/** How a terminal's command ended, if that is known. */
function exitOf(call: ToolCallState): number | undefined {
  const content = 'content' in call ? call.content : undefined;
  const terminal = content?.find(each => each.type === 'terminal');
  return terminal?.type === 'terminal' ? terminal.result?.exitCode : undefined;
}

function Mark(props: { call: ToolCallState; failed: boolean }): React.ReactElement {
  const { t } = useWords();
  const { call, failed } = props;
  switch (call.status) {
    case 'completed':
      return !failed ? (
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
  const failed = call.status === 'completed' && (!call.success || !!exitOf(call));
  // what somebody typed stands above already
  const input = own ? '' : inputOf(call);
  const fold = (
    <details
      className="ahp-Fold ahp-ToolCall"
      open={open}
      data-status={call.status}
      onToggle={event => setOpen(event.currentTarget.open)}
    >
      <summary onClick={() => (touched.current = true)}>
        <Mark call={call} failed={failed} />
        <span className="ahp-clip">
          <b>{call.displayName || call.toolName}</b>{' '}
          <span dir="auto">{own || message === call.displayName ? '' : message}</span>
        </span>
        <span className="ahp-grow" />
        {call.status === 'cancelled' && (
          <span className="ahp-num">{call.reason === 'skipped' ? t('stopped') : t('denied')}</span>
        )}
        {failed && <span className="ahp-num ahp-bad">{t('failed')}</span>}
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
