/** Time, chance, frames and wake-ups as values, so that tests hold them in their hand. */

export interface Clock {
  /** Milliseconds. */
  now(): number;
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
  /** In [0, 1). */
  random(): number;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (run, ms) => globalThis.setTimeout(run, ms),
  clearTimeout: timer => globalThis.clearTimeout(timer as ReturnType<typeof globalThis.setTimeout>),
  random: () => Math.random()
};

/** Runs something once, soon. */
export type Schedule = (run: () => void) => void;

/** A hidden page draws no frames, and its title and unread marks must still move. */
const HIDDEN_PAGE_DELAY_MS = 200;

/** At the next animation frame; by a timer where none comes (a hidden page, no browser). */
export const frameSchedule: Schedule = run => {
  let done = false;
  const once = () => {
    if (!done) {
      done = true;
      globalThis.clearTimeout(timer);
      run();
    }
  };
  const timer = globalThis.setTimeout(once, HIDDEN_PAGE_DELAY_MS);
  if (typeof globalThis.requestAnimationFrame === 'function') {
    globalThis.requestAnimationFrame(once);
  }
};

/** Tells a listener when the network is back or the page is looked at again; returns the undo. */
export type Wake = (listener: () => void) => () => void;

interface EventSource {
  addEventListener(type: string, listener: () => void): void;
  removeEventListener(type: string, listener: () => void): void;
}

/** `Wake` of a browser's page: `online` of its window, and its document becoming visible. */
export function browserWake(
  window: EventSource,
  document: EventSource & { readonly visibilityState: string }
): Wake {
  return listener => {
    const visible = () => {
      if (document.visibilityState === 'visible') {
        listener();
      }
    };
    window.addEventListener('online', listener);
    document.addEventListener('visibilitychange', visible);
    return () => {
      window.removeEventListener('online', listener);
      document.removeEventListener('visibilitychange', visible);
    };
  };
}
