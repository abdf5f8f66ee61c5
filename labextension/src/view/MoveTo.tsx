import React, { useEffect, useId, useRef, useState } from 'react';
import type { SessionChatSummary, SessionSummary, URI } from '../ahp';
import { useWords } from './host';
import { finds } from './sessions';

/** How many sessions are offered at once; a word narrows them. */
const MOST = 8;

/** Where a chat moves to: another session of its agent, or one of its own. */
export function MoveTo(props: {
  chat: SessionChatSummary;
  /** Where it may go, last changed first. */
  sessions: readonly SessionSummary[];
  /** Nothing for a session of its own. */
  onMove: (session: URI | undefined) => void;
  onClose: () => void;
}): React.ReactElement {
  const { chat, sessions, onMove, onClose } = props;
  const { t } = useWords();
  const id = useId();
  const root = useRef<HTMLDivElement>(null);
  const [search, setSearch] = useState('');
  const [chosen, setChosen] = useState<URI | ''>('');
  useEffect(() => {
    root.current?.querySelector<HTMLElement>('input:checked')?.focus();
  }, []);
  const found = sessions.filter(({ title }) => finds(search)(title)).slice(0, MOST);
  // what is not in sight is not what is meant
  const meant = found.some(({ resource }) => resource === chosen) ? chosen : '';
  return (
    <div
      ref={root}
      className="ahp-Popup ahp-Dialog"
      role="dialog"
      aria-labelledby={id}
      onKeyDown={event => {
        event.stopPropagation();
        if (event.key === 'Escape') {
          onClose();
        }
      }}
    >
      <h2 id={id}>{t('Move “%1”', chat.title || t('New chat'))}</h2>
      <form
        className="ahp-Form"
        onSubmit={event => {
          event.preventDefault();
          onMove(meant || undefined);
        }}
      >
        <fieldset>
          <legend>{t('To')}</legend>
          <label className="ahp-Option">
            <input type="radio" name={id} checked={meant === ''} onChange={() => setChosen('')} />
            <span>{t('A session of its own')}</span>
          </label>
          {found.map(({ resource, title }) => (
            <label key={resource} className="ahp-Option">
              <input
                type="radio"
                name={id}
                checked={meant === resource}
                onChange={() => setChosen(resource)}
              />
              <span className="ahp-clip">{title || t('New chat')}</span>
            </label>
          ))}
        </fieldset>
        {sessions.length > MOST && (
          <input
            className="ahp-Field"
            type="search"
            aria-label={t('Search sessions')}
            placeholder={t('Search titles')}
            value={search}
            onChange={event => setSearch(event.target.value)}
          />
        )}
        <div className="ahp-Actions">
          <button type="submit" className="ahp-Btn is-primary">
            {t('Move')}
          </button>
          <button type="button" className="ahp-Btn is-quiet" onClick={onClose}>
            {t('Cancel')}
          </button>
        </div>
      </form>
    </div>
  );
}
