import { type RefObject, useLayoutEffect } from 'react';

const CARDS = '.ahp-Card.is-ask, .ahp-Card.is-question';

/**
 * Brings the next card that waits for a person into view, with the focus on it: the one after where the focus is, else
 * the first, unless `wrap` is false and the focus is on the last. False when there is none.
 */
export function toNextCard(root: HTMLElement, wrap = true): boolean {
  const cards = [...root.querySelectorAll<HTMLElement>(CARDS)];
  const focus = root.ownerDocument.activeElement;
  const at = cards.findIndex(card => card.contains(focus));
  const behind = cards.find(
    card => focus && focus.compareDocumentPosition(card) & Node.DOCUMENT_POSITION_FOLLOWING
  );
  const next = (at >= 0 ? cards[at + 1] : behind) ?? (wrap || at < 0 ? cards[0] : undefined);
  next?.scrollIntoView({ block: 'nearest' });
  next?.focus({ preventScroll: true });
  return next !== undefined;
}

/** As `toNextCard`, once there is a card: in a chat that is being opened. Given up when somebody does something else. */
export function toCardOnceThere(root: HTMLElement, patienceMs = 10_000): void {
  if (toNextCard(root)) {
    return;
  }
  const observer = new MutationObserver(() => {
    if (toNextCard(root)) {
      leave();
    }
  });
  const leave = (): void => {
    observer.disconnect();
    clearTimeout(timer);
    root.ownerDocument.removeEventListener('keydown', leave, true);
    root.ownerDocument.removeEventListener('pointerdown', leave, true);
  };
  const timer = setTimeout(leave, patienceMs);
  observer.observe(root, { childList: true, subtree: true });
  root.ownerDocument.addEventListener('keydown', leave, true);
  root.ownerDocument.addEventListener('pointerdown', leave, true);
}

/**
 * Alt N, Ctrl N on macOS. Where text or cards have the focus JupyterLab runs no shortcuts, so that they cannot be run by
 * typing: there it is heard here.
 */
export function isNextKey(event: KeyboardEvent): boolean {
  const mac = /^Mac|^iP/.test(navigator.platform);
  const { altKey, ctrlKey, metaKey, shiftKey } = event;
  const modified = mac ? ctrlKey && !altKey : altKey && !ctrlKey;
  return event.code === 'KeyN' && modified && !metaKey && !shiftKey;
}

/** When a card goes with the focus in it, the focus goes to the next that waits, else to the box: never to the page. */
export function useFocusAfter(card: RefObject<HTMLElement>): void {
  useLayoutEffect(() => {
    const element = card.current;
    return () => {
      const view = element?.closest<HTMLElement>('.ahp-Chat');
      if (view && element?.contains(element.ownerDocument.activeElement)) {
        requestAnimationFrame(() => {
          if (!toNextCard(view)) {
            view.querySelector<HTMLElement>('.ahp-Composer-text')?.focus();
          }
        });
      }
    };
  }, [card]);
}
