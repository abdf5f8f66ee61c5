import React, { useLayoutEffect, useRef } from 'react';
import type { TerminalState, ToolContent } from '../ahp';
import { useWords } from './host';
import { printed } from './printed';
import { useChannel, useSubscription } from './use';

const LONGEST = 16_000;

/** What a terminal printed: the end of it, as it comes while it runs, and how it ended. */
export function Terminal(props: {
  content: Extract<ToolContent, { type: 'terminal' }>;
  running: boolean;
}): React.ReactElement {
  const { t } = useWords();
  const { content, running } = props;
  const channel = running ? content.resource : undefined;
  useSubscription(channel);
  const live = useChannel<TerminalState, TerminalState['content'] | undefined>(
    channel,
    view => view.state?.content
  );
  const output = running && live ? whatIsThere(live) : (content.result?.preview ?? '');
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    // it follows what comes, unless somebody reads further up
    if (box.current && atEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [output]);
  return (
    <div className="ahp-Term">
      {content.result?.truncated && (
        <div className="ahp-Term-end">{t('The end of the output')}</div>
      )}
      {output ? (
        <pre
          ref={box}
          tabIndex={0}
          aria-label={t('Output')}
          onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
            atEnd.current = scrollHeight - scrollTop - clientHeight < 8;
          }}
        >
          {output}
        </pre>
      ) : (
        !running && <div className="ahp-Term-end">{t('No output')}</div>
      )}
      {content.result?.exitCode !== undefined && (
        <div className="ahp-Term-end">{t('exit %1', content.result.exitCode)}</div>
      )}
    </div>
  );
}

function whatIsThere(content: TerminalState['content']): string {
  const all = content.map(part => (part.type === 'command' ? part.output : part.value)).join('');
  return printed(all.slice(-LONGEST));
}
