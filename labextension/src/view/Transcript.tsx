import React, { useCallback, useEffect, useRef, useState } from 'react';
import type { Turn, URI } from '../ahp';
import { FindBar } from './FindBar';
import { useView } from './host';
import { Icon } from './Icon';
import { Notice } from './Notice';
import { buttonsOf, press, tab } from './roving';
import { SelectionButton } from './SelectionButton';
import { useStick } from './stick';
import type { TurnActions } from './turnActions';
import { reveal, TurnBox } from './TurnBox';
import { TurnView } from './TurnView';
import { useChat } from './use';

const EARLY_PX = 400;

interface Props {
  chat: URI;
  agent: string | undefined;
  me: string | undefined;
  readOnly: boolean;
  /** A turn that is not on its way yet: it stands above the composer, not here. */
  unsent: string | undefined;
  actions: TurnActions;
  /** What stands at the very beginning, before the first turn. */
  top: React.ReactNode;
  /** What stands at the end, behind the last turn. */
  tail: React.ReactNode;
  /** Called with what brings the end in sight. */
  endRef: React.MutableRefObject<(() => void) | null>;
  /** What stands where there are no turns. */
  empty: React.ReactNode;
  /** Whether words are looked for in it. */
  finding: boolean;
  onFind: () => void;
  onFound: () => void;
}

interface Shown {
  id: string;
  ended?: Turn;
}

const BOX = 32;

/**
 * The turns in boxes of so many, so that the page lays out the last box as an answer grows, and not all that was said,
 * and has those alone that are near what is in sight. A turn stays in its box when older ones come before it.
 */
function useBoxes(shown: readonly Shown[]): { box: number; from: number; items: Shown[] }[] {
  const zero = useRef<string>();
  // where the turn that was first at first stands now: boxes are counted from there
  let start = zero.current ? shown.findIndex(({ id }) => id === zero.current) : -1;
  if (start < 0) {
    start = 0;
    zero.current = shown[0]?.id;
  }
  const boxes: { box: number; from: number; items: Shown[] }[] = [];
  shown.forEach((item, index) => {
    const box = Math.floor((index - start) / BOX);
    const last = boxes[boxes.length - 1];
    if (last?.box === box) {
      last.items.push(item);
    } else {
      boxes.push({ box, from: index, items: [item] });
    }
  });
  return boxes;
}

/** The turns, oldest first. It follows which turns there are; what runs in the last one is for that one to follow. */
export function Transcript(props: Props): React.ReactElement {
  const { chat, agent, me, readOnly, unsent, actions, top, tail, endRef, empty } = props;
  const { finding, onFind, onFound } = props;
  const { store, host } = useView();
  const { t, n } = host.words;
  const turns = useChat(chat, state => state?.turns);
  const active = useChat(chat, state => state?.activeTurn?.id);
  const cursor = useChat(chat, state => state?.turnsNextCursor);
  const log = useRef<HTMLDivElement>(null);
  /** Behind all that is in the log: where Tab goes on from. */
  const after = useRef<HTMLSpanElement>(null);
  /** The turn that the focus was in last. */
  const current = useRef<HTMLElement | null>(null);
  const column = useRef<HTMLDivElement>(null);
  const { atEnd, toEnd } = useStick(log, column, turns?.[0]?.id ?? active);
  endRef.current = toEnd;

  // ── older turns ──
  const [loading, setLoading] = useState(false);
  const [problem, setProblem] = useState<string>();
  const asked = useRef<string>();
  const more = useCallback(
    (again = false) => {
      if (!cursor || (asked.current === cursor && !again)) {
        return;
      }
      asked.current = cursor;
      setLoading(true);
      setProblem(undefined);
      store
        .fetchTurns(chat)
        .catch((error: Error) => setProblem(error.message))
        .finally(() => setLoading(false));
    },
    [store, chat, cursor]
  );
  useEffect(() => {
    const element = log.current;
    if (!element) {
      return;
    }
    const look = (): void => {
      if (element.scrollTop < EARLY_PX) {
        more();
      }
    };
    element.addEventListener('scroll', look, { passive: true });
    const timer = setTimeout(look); // the page may be too short to scroll
    return () => {
      element.removeEventListener('scroll', look);
      clearTimeout(timer);
    };
  }, [more]);

  // ── what came while the reader was elsewhere ──
  const live = active !== undefined && active !== unsent ? active : undefined;
  // one list, so that a turn stays the same element when it ends
  const shown: Shown[] = (turns ?? []).map(turn => ({
    id: turn.id,
    ended: turn
  }));
  if (live) {
    shown.push({ id: live });
  }
  const count = shown.length;
  const boxes = useBoxes(shown);
  const parts = useChat(chat, state => state?.activeTurn?.responseParts.length ?? 0);
  const last = turns?.[turns.length - 1]?.id;
  const seen = useRef({ last, live, parts });
  if (atEnd) {
    seen.current = { last, live, parts };
  }
  let fresh = 0;
  if (!atEnd && turns) {
    const at = turns.findIndex(turn => turn.id === seen.current.last);
    const newTurns = turns.slice(at + 1).filter(turn => turn.id !== seen.current.live).length;
    fresh =
      newTurns +
      (live === seen.current.live ? Math.max(0, parts - seen.current.parts) : live ? 1 : 0);
    if (fresh === 0 && last !== seen.current.last) {
      fresh = 1;
    }
  }

  const onKeyDown = (event: React.KeyboardEvent<HTMLDivElement>): void => {
    const target = event.target as HTMLElement;
    if (
      (event.ctrlKey || event.metaKey) &&
      !event.altKey &&
      !event.shiftKey &&
      event.code === 'KeyF'
    ) {
      event.preventDefault();
      event.stopPropagation();
      onFind();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const articles = [...(column.current?.querySelectorAll<HTMLElement>('[data-turn]') ?? [])];
    const here = target.closest<HTMLElement>('[data-turn]');
    if (event.key === 'Tab') {
      const turn = here ?? articles.find(each => each === current.current) ?? articles.at(-1);
      if (log.current && turn) {
        tab(event, log.current, turn, after.current);
      }
      return;
    }
    if (event.key === 'Escape' && here && target !== here) {
      here.focus();
      event.stopPropagation();
      return;
    }
    if (target !== log.current && target !== here) {
      return; // inside a turn the keys are its own
    }
    const index = here ? articles.indexOf(here) : -1;
    const go = (to: number): void => {
      const article = articles[Math.min(articles.length - 1, Math.max(0, to))];
      article?.focus();
      article?.scrollIntoView({ block: 'nearest' });
    };
    switch (event.key) {
      case 'j':
      case 'J':
      case 'ArrowDown':
        go(here ? index + 1 : articles.length - 1);
        break;
      case 'k':
      case 'K':
      case 'ArrowUp':
        go(here ? index - 1 : articles.length - 1);
        break;
      case 'Home':
        if (shown.length && log.current) {
          reveal(log.current, shown[0].id, turn => {
            turn.focus({ preventScroll: true });
            turn.scrollIntoView({ block: 'nearest' });
          });
        }
        break;
      case 'End':
        go(articles.length - 1);
        toEnd();
        break;
      case 'Enter':
        if (!here) {
          return;
        }
        buttonsOf(here)[0]?.focus();
        break;
      case 'c':
      case 'C':
        press(here, 'copy');
        break;
      case 'e':
      case 'E':
        press(here, 'edit');
        break;
      case 'f':
      case 'F':
        press(here, 'fork');
        break;
      case 'r':
      case 'R':
        press(here, 'retry');
        break;
      case 'Escape':
        if (!here) {
          return;
        }
        log.current?.focus();
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div className="ahp-LogBox">
      {finding && (
        <FindBar
          chat={chat}
          log={log}
          onClose={() => {
            onFound();
            log.current?.focus({ preventScroll: true });
          }}
        />
      )}
      <div
        ref={log}
        className="ahp-Log"
        role="log"
        aria-label={t('Transcript')}
        aria-live="off"
        tabIndex={0}
        data-lm-suppress-shortcuts="true"
        data-busy={live !== undefined || undefined}
        onKeyDown={onKeyDown}
        onFocus={event => {
          const turn = (event.target as HTMLElement).closest<HTMLElement>('[data-turn]');
          if (turn) {
            current.current = turn;
          }
        }}
      >
        <div ref={column} className="ahp-Column">
          {!cursor && turns && top}
          {cursor &&
            (problem ? (
              <Notice icon="warn">
                {t('Earlier turns could not be loaded. %1', problem)}{' '}
                <button
                  type="button"
                  className="ahp-Btn is-small is-quiet"
                  onClick={() => more(true)}
                >
                  {t('Try again')}
                </button>
              </Notice>
            ) : (
              <div className="ahp-Earlier" aria-busy={loading}>
                {loading && (
                  <>
                    <Icon name="spinner" />
                    {t('Loading earlier turns')}
                  </>
                )}
              </div>
            ))}
          {boxes.map(({ box, from, items }, index) => (
            <TurnBox
              key={box}
              log={log}
              ids={items.map(({ id }) => id)}
              always={index === boxes.length - 1}
            >
              {() =>
                items.map(({ id, ended }, place) => (
                  <TurnView
                    key={id}
                    chat={chat}
                    id={id}
                    number={from + place + 1}
                    ended={ended}
                    agent={agent}
                    me={me}
                    readOnly={readOnly}
                    actions={actions}
                    onRetry={
                      ended && from + place === count - 1 && !active ? actions.retry : undefined
                    }
                  />
                ))
              }
            </TurnBox>
          ))}
          {turns && count === 0 && empty}
          {tail}
        </div>
        {actions.aside && <SelectionButton log={log} onAside={actions.aside} />}
        <span ref={after} tabIndex={-1} />
      </div>
      {!atEnd && fresh > 0 && (
        <button type="button" className="ahp-NewPill" onClick={toEnd}>
          <Icon name="down" />
          {n('%1 new', '%1 new', fresh)}
        </button>
      )}
    </div>
  );
}
