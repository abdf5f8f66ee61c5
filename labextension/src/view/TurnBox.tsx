import React, { useEffect, useRef, useState } from 'react';

/** So far above and below what is in sight turns are on the page. */
const AHEAD_PX = 2000;
/** Markdown is drawn a moment after it is on the page: that long a box keeps the height that it had. */
const DRAWN_MS = 1000;
/** Frames that are waited for a turn to be on the page and drawn. */
const FRAMES = 120;

/**
 * Some turns of a log. Far from what is in sight they are not on the page: an empty box of their height is there instead.
 * Those that have the focus, or something selected in them, stay; `always` are those that are never taken away.
 */
export function TurnBox(props: {
  log: React.RefObject<HTMLElement>;
  ids: readonly string[];
  always: boolean;
  children: () => React.ReactNode;
}): React.ReactElement {
  const { log, ids, always, children } = props;
  const box = useRef<HTMLDivElement>(null);
  /** The height of the turns, while they are away. */
  const [away, setAway] = useState<number>();
  const [kept, setKept] = useState<number>();
  const pinned = useRef(always);
  pinned.current = always;

  useEffect(() => {
    const element = box.current;
    if (!element || !globalThis.IntersectionObserver) {
      return;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const observer = new IntersectionObserver(
      entries => {
        const entry = entries[entries.length - 1];
        if (entry.isIntersecting) {
          setAway(height => {
            setKept(height);
            return undefined;
          });
          clearTimeout(timer);
          timer = setTimeout(() => setKept(undefined), DRAWN_MS);
        } else if (!pinned.current && !isHeld(element) && entry.boundingClientRect.height > 0) {
          setAway(entry.boundingClientRect.height);
        }
      },
      { root: log.current, rootMargin: `${AHEAD_PX}px 0px` }
    );
    observer.observe(element);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [log]);

  if (away !== undefined && !always) {
    return (
      <div ref={box} className="ahp-Turns" style={{ height: away }} data-turns={ids.join(' ')} />
    );
  }
  return (
    <div ref={box} className="ahp-Turns" style={kept ? { minHeight: kept } : undefined}>
      {children()}
    </div>
  );
}

function isHeld(element: HTMLElement): boolean {
  const selection = document.getSelection();
  return (
    element.contains(document.activeElement) ||
    (selection !== null && !selection.isCollapsed && selection.containsNode(element, true))
  );
}

function isDrawn(turn: Element): boolean {
  return [...turn.querySelectorAll('.ahp-Md-block')].every(block => block.hasChildNodes());
}

/**
 * Brings a turn that is loaded onto the page and in sight. Calls `done` with it once it is drawn, if it is there at all;
 * returns the undo.
 */
export function reveal(
  log: HTMLElement,
  id: string,
  done: (turn: HTMLElement) => void
): () => void {
  const name = CSS.escape(id);
  let frame = 0;
  let left = FRAMES;
  /** What is in sight is laid out in the frame after it was scrolled to. */
  let inSight: HTMLElement | null = null;
  const look = (): void => {
    const turn = log.querySelector<HTMLElement>(`[data-turn="${name}"]`);
    (turn ?? log.querySelector(`[data-turns~="${name}"]`))?.scrollIntoView({ block: 'center' });
    if (turn && turn === inSight && (isDrawn(turn) || left <= 0)) {
      done(turn);
    } else if (left-- > 0) {
      inSight = turn;
      frame = requestAnimationFrame(look);
    }
  };
  look();
  return () => cancelAnimationFrame(frame);
}
