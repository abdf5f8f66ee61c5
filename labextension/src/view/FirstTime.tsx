import React from 'react';
import type { AgentInfo } from '../ahp';
import { noteOf, unavailable } from './agents';
import { useWords } from './host';
import { Icon } from './Icon';

/** What stands where there is no chat yet: one can begin at once, and sees what else there is. */
export function FirstTime(props: {
  agents: readonly AgentInfo[];
  onStart: (provider: string) => void;
}): React.ReactElement {
  const { t } = useWords();
  const ready = props.agents.filter(agent => !unavailable(agent));
  const missing = props.agents.filter(unavailable);
  const first = ready[0];
  const tiny = first ? noteOf(first) : '';
  return (
    <div className="ahp-Empty">
      <h2>{t('Ask about your notebook')}</h2>
      {tiny ? (
        <p>
          {t('A small model is built in, so you can try it now, offline and with no key.')}{' '}
          <b>{t('It is tiny and often wrong.')}</b> {t('For real work, add an agent.')}
        </p>
      ) : first ? (
        <p>{t('Chats that you begin here are kept on this server and listed in this panel.')}</p>
      ) : (
        <p>{t('No agent can be used on this server yet. For real work, add an agent.')}</p>
      )}
      {ready.length > 0 && (
        <div className="ahp-Starters">
          {ready.map(agent => (
            <button
              key={agent.provider}
              type="button"
              className="ahp-Btn"
              onClick={() => props.onStart(agent.provider)}
            >
              <Icon name="chat" />
              {t('New chat with %1', agent.displayName)}
            </button>
          ))}
        </div>
      )}
      {missing.length > 0 && (
        <>
          <h3>{t('Add an agent')}</h3>
          <ul className="ahp-Agents" role="list">
            {missing.map(agent => {
              const problem = unavailable(agent);
              return (
                <li key={agent.provider}>
                  <Icon name="bot" />
                  <span>
                    <bdi>{agent.displayName}</bdi>
                    <small>
                      {problem?.reason} {problem?.fix}
                    </small>
                  </span>
                </li>
              );
            })}
          </ul>
        </>
      )}
    </div>
  );
}
