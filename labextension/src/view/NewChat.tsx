import React, { useEffect, useId, useRef, useState } from 'react';
import type { AgentInfo } from '../ahp';
import { noteOf, unavailable } from './agents';
import { useWords } from './host';

/** Which agent a new chat is with. One that cannot be used says why, and what to do about it. */
export function NewChat(props: {
  agents: readonly AgentInfo[];
  onStart: (provider: string) => void;
  onClose: () => void;
}): React.ReactElement {
  const { agents, onStart, onClose } = props;
  const { t } = useWords();
  const id = useId();
  const root = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState(() => agents.find(agent => !unavailable(agent))?.provider);
  useEffect(() => {
    const from = document.activeElement;
    root.current?.querySelector<HTMLElement>('input:checked, input, button')?.focus();
    return () => {
      if (from instanceof HTMLElement && from.isConnected) {
        from.focus();
      }
    };
  }, []);
  return (
    <div
      ref={root}
      className="ahp-Popup ahp-Dialog"
      role="dialog"
      aria-labelledby={id}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onClose();
        }
      }}
    >
      <h2 id={id}>{t('New chat')}</h2>
      <form
        className="ahp-Form"
        onSubmit={event => {
          event.preventDefault();
          if (chosen) {
            onStart(chosen);
          }
        }}
      >
        <fieldset>
          <legend>{t('Agent')}</legend>
          {agents.map(agent => {
            const problem = unavailable(agent);
            return (
              <label key={agent.provider} className="ahp-Option">
                <input
                  type="radio"
                  name={id}
                  value={agent.provider}
                  checked={chosen === agent.provider}
                  disabled={!!problem}
                  onChange={() => setChosen(agent.provider)}
                />
                <span className={problem ? 'ahp-muted' : undefined}>
                  <bdi>{agent.displayName}</bdi>
                  <small>
                    {problem ? (
                      <>
                        <span className="ahp-warn">{problem.reason}</span> {problem.fix}
                      </>
                    ) : (
                      noteOf(agent) || agent.description
                    )}
                  </small>
                </span>
              </label>
            );
          })}
        </fieldset>
        {!chosen && (
          <p className="ahp-warn">
            {t('No agent can be used yet. See above what each of them needs.')}
          </p>
        )}
        <div className="ahp-Actions">
          <button type="submit" className="ahp-Btn is-primary" aria-disabled={!chosen}>
            {t('Start chat')}
          </button>
          <button type="button" className="ahp-Btn is-quiet" onClick={onClose}>
            {t('Cancel')}
          </button>
        </div>
      </form>
    </div>
  );
}
