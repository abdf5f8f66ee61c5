import React, { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { TerminalState, ToolContent } from '../ahp';
import { useWords } from './host';
import { linesOf } from './printed';
import { useChannel, useSeen, useSubscription } from './use';

const LONGEST = 16_000;

/** What a terminal printed: the end of it, as it comes while it runs, and how it ended. */
export function Terminal(props: {
  content: Extract<ToolContent, { type: 'terminal' }>;
  running: boolean;
}): React.ReactElement {
  const { t } = useWords();
  const { content, running } = props;
  const place = useRef<HTMLDivElement>(null);
  const inView = useSeen(place);
  // what was printed, colours and all, as long as the host has it; else the plain end of it that the turn keeps
  const [seen, setSeen] = useState<TerminalState['content']>();
  const channel = (running || inView) && !seen ? content.resource : undefined;
  useSubscription(channel);
  const live = useChannel<TerminalState, TerminalState['content'] | undefined>(
    channel,
    view => view.state?.content
  );
  useEffect(() => {
    if (live && !running) {
      setSeen(live); // all of it: what was printed is told before that it ended
    }
  }, [live, running]);
  const shown = live ?? seen;
  const output = shown ? allOf(shown) : (content.result?.preview ?? '');
  const lines = useMemo(() => linesOf(output), [output]);
  const empty = lines.every(runs => runs.length === 0);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    // it follows what comes, unless somebody reads further up
    if (box.current && atEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [output]);
  return (
    <div ref={place} className="ahp-Term">
      {content.result?.truncated && (
        <div className="ahp-Term-end">{t('The end of the output')}</div>
      )}
      {!empty ? (
        <pre
          ref={box}
          tabIndex={0}
          aria-label={t('Output')}
          onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
            atEnd.current = scrollHeight - scrollTop - clientHeight < 8;
          }}
        >
          {lines.map((runs, index) => (
            <React.Fragment key={index}>
              {index > 0 && '\n'}
              {runs.map(({ text, look }, at) =>
                look ? (
                  <span key={at} className={look.replace(/\w+/g, 'ahp-ansi-$&')}>
                    {text}
                  </span>
                ) : (
                  text
                )
              )}
            </React.Fragment>
          ))}
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

function allOf(content: TerminalState['content']): string {
  const all = content.map(part => (part.type === 'command' ? part.output : part.value)).join('');
  return all.slice(-LONGEST);
}
