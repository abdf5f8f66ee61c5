import React, { useId, useState } from 'react';
import type { ErrorInfo } from '../ahp';
import { CopyButton } from './CopyButton';
import { useWords } from './host';
import { Icon } from './Icon';
import { firstSentence } from './text';

/** What happened, whether something was lost, what to do. The raw text stays behind Details. */
export function ErrorCard(props: {
  error: ErrorInfo;
  /** Absent when trying again is not offered here. */
  onRetry?: () => void;
}): React.ReactElement {
  const { error, onRetry } = props;
  const { t } = useWords();
  const id = useId();
  const [open, setOpen] = useState(false);
  const [title, rest] = firstSentence(error.message || t('The agent stopped with an error'));
  return (
    <section className="ahp-Card is-error" role="group" aria-labelledby={id}>
      <header>
        <Icon name="warn" />
        <h3 id={id}>
          <bdi>{title}</bdi>
        </h3>
        {rest && (
          <p className="ahp-sub">
            <bdi>{rest}</bdi>
          </p>
        )}
      </header>
      {(onRetry || error.stack) && (
        <div className="ahp-Actions">
          {onRetry && (
            <button
              type="button"
              className="ahp-Btn is-primary"
              data-action="retry"
              onClick={onRetry}
            >
              {t('Retry')}
            </button>
          )}
          {error.stack && (
            <button
              type="button"
              className="ahp-Btn is-quiet"
              aria-expanded={open}
              aria-controls={`${id}-details`}
              onClick={() => setOpen(!open)}
            >
              {t('Details')}
            </button>
          )}
        </div>
      )}
      {open && error.stack && (
        <div className="ahp-Term" id={`${id}-details`}>
          <pre tabIndex={0}>{error.stack}</pre>
          <div className="ahp-Term-end">
            <span className="ahp-grow">{error.errorType}</span>
            <CopyButton label={t('Copy details')} text={() => error.stack ?? ''} />
          </div>
        </div>
      )}
    </section>
  );
}
