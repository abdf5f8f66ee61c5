import type { SessionSummary, URI } from '../ahp';
import type { ChatRef } from '../view';
import { toCardOnceThere, toNextCard } from '../view/needs';
import { needing, needingChat, nextNeeding } from '../view/sessions';

/** A chat that is in sight. */
export interface Face {
  readonly node: HTMLElement;
  readonly session: URI | undefined;
}

/**
 * Goes to what waits for a person next: in the chat with the focus, then in the sessions that need somebody, one after the
 * other and round about. `open` shows a chat that is not in sight, and answers where.
 */
export function goToNext(
  faces: readonly Face[],
  items: readonly SessionSummary[],
  open: (chat: ChatRef) => HTMLElement | undefined
): void {
  const focused = faces.find(({ node }) => node.contains(document.activeElement));
  if (focused && toNextCard(focused.node, false)) {
    return;
  }
  let from = focused?.session;
  for (let tries = needing(items).length; tries > 0; tries--) {
    const summary = nextNeeding(items, from);
    if (!summary || (summary.resource === focused?.session && tries > 1)) {
      from = summary?.resource;
      continue;
    }
    const face = faces.find(({ session }) => session === summary.resource);
    if (face && toNextCard(face.node)) {
      return;
    }
    const chat = needingChat(summary);
    const node = chat && open({ chat, session: summary.resource });
    if (node) {
      toCardOnceThere(node);
      return;
    }
    from = summary.resource;
  }
  // the list may not know yet what stands on the page
  for (const { node } of focused ? [focused, ...faces] : faces) {
    if (toNextCard(node)) {
      return;
    }
  }
}
