import { createContext, useContext } from 'react';
import type { AhpStore, URI } from '../ahp';
import type { Words } from './words';

/** A chat and the session it is in. The session may be found by the chat when it is not known. */
export interface ChatRef {
  readonly chat: URI;
  readonly session?: URI;
}

/** What the view needs of the place that shows it: JupyterLab, or a page with a widget in it. */
export interface ViewHost {
  readonly words: Words;
  /** BCP 47, for times; the browser's own when absent. */
  readonly locale?: string;
  /**
   * Markdown as sanitised HTML, in an element of the host's making. What is in it loads nothing from elsewhere, and
   * its links open apart.
   */
  renderMarkdown(source: string): Promise<HTMLElement>;
  /** Sets the mathematics in an element that is on the page. */
  typeset?(element: HTMLElement): void;
  copy(text: string): Promise<void>;
  /** Asks before something that cannot be undone. */
  confirm(question: { title: string; body: string; action: string }): Promise<boolean>;
  openChat(chat: ChatRef, area: 'main' | 'side'): void;
  /** Goes to the next question that waits for the reader, in whichever chat; absent where only one chat is at hand. */
  nextNeedsYou?(): void;
  /** Shows a canvas in a place of its own, until it is closed; absent where there is none. */
  openCanvas?(canvas: URI, chat: URI): void;
  /** A chat of that session is shown here, until the undo is called: what this page can do for its agent is offered. */
  attend?(session: URI): () => void;
  /** Opens a new chat; without an agent, of the first that is ready. */
  newChat(agent?: string): void;
}

export interface ViewContext {
  readonly store: AhpStore;
  readonly host: ViewHost;
}

export const Context = createContext<ViewContext | null>(null);

export function useView(): ViewContext {
  const context = useContext(Context);
  if (!context) {
    throw new Error('A view of a chat needs <Context.Provider> above it.');
  }
  return context;
}

export function useWords(): Words {
  return useView().host.words;
}
