import type React from 'react';

/** What can be focused in a turn, in its order. */
export function buttonsOf(turn: Element): HTMLElement[] {
  return [
    ...turn.querySelectorAll<HTMLElement>(
      'button, summary, a[href], input, select, textarea, [tabindex="0"]'
    )
  ].filter(
    element =>
      element.tabIndex >= 0 &&
      !element.hasAttribute('disabled') &&
      element.checkVisibility?.() !== false
  );
}

/** Does what the button of a turn does, if the turn has it. */
export function press(turn: Element | null, action: string): void {
  turn?.querySelector<HTMLElement>(`[data-action="${action}"]`)?.click();
}

/**
 * Tab in a log of turns: the log is one stop, and behind it come the buttons of one turn alone; then it goes on behind
 * the log, at `after`.
 */
export function tab(
  event: React.KeyboardEvent<HTMLElement>,
  log: HTMLElement,
  turn: HTMLElement,
  after: HTMLElement | null
): void {
  const target = event.target as HTMLElement;
  const stops = buttonsOf(turn);
  const at = stops.indexOf(target);
  if (event.shiftKey) {
    if (at >= 0 || target === turn) {
      event.preventDefault();
      (stops[at - 1] ?? log).focus();
    }
    return;
  }
  const next = stops[at + 1];
  if (next) {
    event.preventDefault();
    next.focus();
  } else {
    after?.focus({ preventScroll: true }); // and from there on as browsers do
  }
}
