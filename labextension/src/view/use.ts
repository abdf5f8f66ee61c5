import { type RefObject, useCallback, useEffect, useState, useSyncExternalStore } from 'react';
import type {
  AnyState,
  ChannelView,
  ChatState,
  RootState,
  SessionState,
  SubscribeOptions,
  URI
} from '../ahp';
import { useView } from './host';

const NOTHING: ChannelView<never> = { status: 'none', pending: [] };

/**
 * A piece of a channel, kept up to date. The component renders again when the piece is another one, so `select` must
 * answer the same object while nothing in it changed. `active` false: read once, not watched.
 */
export function useChannel<S extends AnyState, R>(
  channel: URI | undefined,
  select: (view: ChannelView<S>) => R,
  active = true
): R {
  const { store } = useView();
  const watch = useCallback(
    (listener: () => void) =>
      channel && active ? store.watch(channel, listener) : () => undefined,
    [store, channel, active]
  );
  return useSyncExternalStore(watch, () =>
    select(channel ? store.getChannel<S>(channel) : NOTHING)
  );
}

export function useChat<R>(
  chat: URI,
  select: (state: ChatState | undefined) => R,
  active = true
): R {
  return useChannel<ChatState, R>(chat, view => select(view.state), active);
}

export function useSession<R>(
  session: URI | undefined,
  select: (state: SessionState | undefined) => R
): R {
  return useChannel<SessionState, R>(session, view => select(view.state));
}

export function useRoot<R>(select: (state: RootState | undefined) => R): R {
  return useChannel<RootState, R>('ahp-root://', view => select(view.state));
}

/** Holds a channel's subscription while the component is there. */
export function useSubscription(channel: URI | undefined, options?: SubscribeOptions): void {
  const { store } = useView();
  const turns = options?.turns;
  useEffect(() => {
    if (!channel) {
      return;
    }
    const subscription = store.subscribe(channel, turns === undefined ? {} : { turns });
    return () => subscription.release();
  }, [store, channel, turns]);
}

/** The time, moving on each `everyMs` while `running`. */
export function useNow(running: boolean, everyMs = 1000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!running) {
      return;
    }
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [running, everyMs]);
  return now;
}

/** Whether a place was in view, or is about to be. */
export function useSeen(place: RefObject<Element>): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (seen || !element) {
      return;
    }
    if (!globalThis.IntersectionObserver) {
      setSeen(true);
      return;
    }
    const observer = new IntersectionObserver(
      entries => entries.some(entry => entry.isIntersecting) && setSeen(true),
      { rootMargin: '400px' }
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [place, seen]);
  return seen;
}
