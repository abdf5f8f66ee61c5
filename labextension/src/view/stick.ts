import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';

/** How close to the end counts as being there. */
const NEAR_PX = 32;

export function isAtEnd(
  log: Pick<HTMLElement, 'scrollHeight' | 'scrollTop' | 'clientHeight'>
): boolean {
  return log.scrollHeight - log.scrollTop - log.clientHeight <= NEAR_PX;
}

function topIn(log: Element, node: Element): number {
  return node.getBoundingClientRect().top - log.getBoundingClientRect().top;
}

export interface Stick {
  /** Whether the reader is at the end, so that the end is kept in sight. */
  readonly atEnd: boolean;
  toEnd(): void;
}

/**
 * Keeps the end of a growing log in sight while the reader is there, and leaves the reader alone while they are not.
 * `first` is what the log begins with: when older things come before it, what was in sight stays where it was.
 */
export function useStick(
  log: RefObject<HTMLElement>,
  column: RefObject<HTMLElement>,
  first: string | undefined
): Stick {
  const [atEnd, setAtEnd] = useState(true);
  const stuck = useRef(true);
  const shown = useRef(first);
  const held = useRef<{ node: Element; top: number } | null>(null);
  if (shown.current !== first) {
    // the page still shows what was: the last moment to see where its first turn stands
    shown.current = first;
    const node = column.current?.querySelector('[data-turn]');
    held.current = node && log.current ? { node, top: topIn(log.current, node) } : null;
  }

  const toEnd = useCallback(() => {
    stuck.current = true;
    setAtEnd(true);
    log.current?.scrollTo({ top: log.current.scrollHeight });
  }, [log]);

  useEffect(() => {
    const element = log.current;
    if (!element || !column.current) {
      return;
    }
    let height = element.clientHeight;
    const onScroll = (): void => {
      if (element.clientHeight !== height) {
        return; // the box changed, not the reader's mind
      }
      stuck.current = isAtEnd(element);
      setAtEnd(stuck.current);
    };
    const follow = (): void => {
      height = element.clientHeight;
      if (stuck.current) {
        element.scrollTop = element.scrollHeight;
      }
    };
    element.addEventListener('scroll', onScroll, { passive: true });
    const observer = new ResizeObserver(follow);
    observer.observe(element);
    observer.observe(column.current);
    follow();
    return () => {
      element.removeEventListener('scroll', onScroll);
      observer.disconnect();
    };
  }, [log, column]);

  useLayoutEffect(() => {
    const element = log.current;
    const was = held.current;
    held.current = null;
    if (!element || !was?.node.isConnected || stuck.current) {
      return;
    }
    const settle = (): void => {
      element.scrollTop += topIn(element, was.node) - was.top;
    };
    settle();
    // once more when what came before has its size
    const frame = requestAnimationFrame(settle);
    return () => cancelAnimationFrame(frame);
  }, [log, first]);

  return { atEnd, toEnd };
}
