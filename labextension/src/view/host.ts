import { createContext, useContext } from 'react';
import type { AhpStore, Attachment, URI } from '../ahp';
import type { CellPlace } from './cells';
import type { Words } from './words';

/** A chat and the session it is in. The session may be found by the chat when it is not known. */
export interface ChatRef {
  readonly chat: URI;
  readonly session?: URI;
}

/** What is put into a chat's box from elsewhere on the page. */
export interface Incoming {
  readonly attachments?: readonly Attachment[];
  readonly files?: readonly File[];
  /** Goes into the box, behind what is typed there. */
  readonly text?: string;
  /** Is said at once, and leaves the box alone. */
  readonly say?: string;
}

/** What can be done with code of an answer in the notebook that was in front last. */
export interface CodeActions {
  /** What it would be done in, for people; undefined where no notebook is open, and one would be made. */
  where(): string | undefined;
  /** As a new cell below the active one, which is run or not. */
  insert(code: string, language: string, run: boolean): Promise<void>;
  /** In place of what the active cell has. */
  replace(code: string): Promise<void>;
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
  /** A box of that chat takes what comes from elsewhere, until the undo is called. */
  receive?(chat: URI, take: (incoming: Incoming) => void): () => void;
  /** Absent where there are no notebooks. */
  readonly code?: CodeActions;
  /** Goes to a cell. Rejects, with words for people, when it is not there any more. */
  showCell?(place: CellPlace): Promise<void>;
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
