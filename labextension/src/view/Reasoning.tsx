import React, { useEffect, useRef, useState } from 'react';
import type { ReasoningPart } from '../ahp';
import { Elapsed } from './Elapsed';
import { duration } from './format';
import { useWords } from './host';
import { Icon } from './Icon';
import { Markdown } from './markdown/Markdown';

/** What the model thought, folded. Its time is known only to who watched it think: nobody reports it. */
export const Reasoning = React.memo(function Reasoning(props: {
  part: ReasoningPart;
  live: boolean;
}) {
  const { part, live } = props;
  const words = useWords();
  const [open, setOpen] = useState(false);
  const [took, setTook] = useState<number>();
  const since = useRef(live ? Date.now() : undefined);
  useEffect(() => {
    if (!live && since.current !== undefined) {
      setTook(Date.now() - since.current);
      since.current = undefined;
    }
  }, [live]);
  const { t } = words;
  return (
    <details className="ahp-Fold" onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>
        {live ? <Icon name="spinner" /> : <Icon name="thought" />}
        <span className="ahp-num">
          {live ? (
            <>
              {t('Thinking')}, <Elapsed since={since.current ?? Date.now()} />
            </>
          ) : took === undefined ? (
            t('Thought')
          ) : (
            t('Thought for %1', duration(took, words))
          )}
        </span>
        <span className="ahp-grow" />
        <Icon name="chevron" className="ahp-Chevron" />
      </summary>
      {open && (
        <div className="ahp-Fold-body is-thought">
          <Markdown text={part.content} live={live} />
        </div>
      )}
    </details>
  );
});
