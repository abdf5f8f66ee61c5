import React, { useEffect, useMemo, useState } from 'react';
import type { URI } from '../ahp';
import { hitsIn, rangesIn } from './finding';
import { useView } from './host';
import { Icon } from './Icon';
import { IconButton } from './IconButton';
import { reveal } from './TurnBox';
import { useChat } from './use';

const SETTLE_MS = 150;
const ALL = 'ahp-found';
const HERE = 'ahp-found-here';

/** Looks for words in a chat: in what is here at once, and page by page in what is not loaded yet. */
export function FindBar(props: {
  chat: URI;
  log: React.RefObject<HTMLElement>;
  onClose: () => void;
}): React.ReactElement {
  const { chat, log, onClose } = props;
  const { store, host } = useView();
  const { t } = host.words;
  const [typed, setTyped] = useState('');
  const [wanted, setWanted] = useState('');
  const turns = useChat(chat, state => state?.turns);
  const active = useChat(chat, state => state?.activeTurn?.id);
  const cursor = useChat(chat, state => state?.turnsNextCursor);
  const [problem, setProblem] = useState<string>();
  const hits = useMemo(
    () => hitsIn({ turns: turns ?? [] }, wanted),
    // the running turn is looked through when it has ended
    [turns, wanted]
  );
  /** Counted from the end, so that older ones that are loaded change nothing. */
  const [fromEnd, setFromEnd] = useState(0);
  const at = hits.length - 1 - Math.min(fromEnd, hits.length - 1);
  const hit = hits[at];

  useEffect(() => {
    const timer = setTimeout(() => {
      setWanted(typed.trim());
      setFromEnd(0);
    }, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [typed]);

  // what is not loaded is loaded for as long as it is looked for
  useEffect(() => {
    if (!wanted || !cursor) {
      return;
    }
    let gone = false;
    setProblem(undefined);
    store.fetchTurns(chat).catch((error: Error) => !gone && setProblem(error.message));
    return () => {
      gone = true;
    };
  }, [store, chat, wanted, cursor]);

  useEffect(() => {
    const highlights = globalThis.CSS?.highlights;
    const clear = (): void => {
      highlights?.delete(ALL);
      highlights?.delete(HERE);
    };
    if (!hit || !log.current) {
      clear();
      return;
    }
    // what is out of sight is on the page, and laid out, only once it is scrolled to
    const leave = reveal(log.current, hit.turn, turn => {
      const ranges = rangesIn(turn, wanted);
      const range = ranges[Math.min(hit.index, ranges.length - 1)];
      const place = range?.startContainer.parentElement ?? turn;
      place.scrollIntoView({ block: 'center' });
      if (highlights) {
        highlights.set(ALL, new Highlight(...ranges));
        highlights.set(HERE, range ? new Highlight(range) : new Highlight());
      }
    });
    return () => {
      leave();
      clear();
    };
  }, [hit?.turn, hit?.index, wanted, log]); // eslint-disable-line

  const move = (by: number): void => {
    if (hits.length > 0) {
      const next = (at + by + hits.length) % hits.length;
      setFromEnd(hits.length - 1 - next);
    }
  };
  const loading = wanted !== '' && cursor !== undefined && !problem;
  const says = !wanted
    ? ''
    : hits.length > 0
      ? t('%1 of %2', at + 1, hits.length)
      : loading
        ? ''
        : t('Not found');
  return (
    <div
      className="ahp-Find"
      role="search"
      aria-label={t('Find in this chat')}
      data-lm-suppress-shortcuts="true"
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onClose();
        } else if (event.key === 'Enter' && (event.target as HTMLElement).matches('input')) {
          event.preventDefault();
          event.stopPropagation();
          move(event.shiftKey ? 1 : -1);
        }
      }}
    >
      <Icon name="search" />
      <input
        className="ahp-Field"
        type="text"
        aria-label={t('Find in this chat')}
        placeholder={t('Find in this chat')}
        autoFocus
        value={typed}
        onChange={event => setTyped(event.target.value)}
      />
      <span className="ahp-num ahp-muted" role="status">
        {says}
        {loading && (
          <>
            {' '}
            <Icon name="spinner" label={t('Looking in earlier turns')} />
          </>
        )}
        {problem && t('Earlier turns could not be loaded. %1', problem)}
        {active && wanted && <span className="ahp-sr"> {t('The running turn is left out.')}</span>}
      </span>
      <IconButton icon="up" label={t('The one before')} shortcut="Enter" onClick={() => move(-1)} />
      <IconButton
        icon="down"
        label={t('The next one')}
        shortcut="Shift Enter"
        onClick={() => move(1)}
      />
      <IconButton icon="cross" label={t('Close')} shortcut="Esc" onClick={onClose} />
    </div>
  );
}
