/**
 * The notebooks that are open, as far as the tools need them. JupyterLab's own classes have these shapes; the package
 * that they are in is not, so that a page without notebooks does without it.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';

export interface SharedCell {
  readonly id: string;
  getSource(): string;
  /** Undone with the notebook's own undo. */
  setSource(source: string): void;
}

export interface Cell {
  readonly node: HTMLElement;
  readonly model: {
    readonly id: string;
    readonly type: string;
    readonly sharedModel: SharedCell;
    /** Of code cells. */
    executionCount?: number | null;
    trusted: boolean;
    clearExecution?(): void;
  };
  readonly editor?: { hasFocus(): boolean } | null;
  /** Of markdown cells. */
  rendered?: boolean;
  /** Of code cells. */
  readonly outputArea?: {
    readonly model: { toJSON(): Output[] };
    future: Kernel.IShellFuture<KernelMessage.IExecuteRequestMsg, KernelMessage.IExecuteReplyMsg>;
  };
  setPrompt?(prompt: string): void;
}

/** As in a notebook's file (nbformat). */
export interface Output {
  readonly output_type: string;
  readonly name?: string;
  readonly text?: string | readonly string[];
  readonly data?: Readonly<Record<string, unknown>>;
  readonly ename?: string;
  readonly evalue?: string;
  readonly traceback?: readonly string[];
}

export interface NotebookPanel extends Widget {
  readonly content: Widget & {
    readonly widgets: readonly Cell[];
    readonly activeCell: Cell | null;
    activeCellIndex: number;
    isSelectedOrActive(cell: Cell): boolean;
    scrollToItem?(index: number, align?: 'auto' | 'smart' | 'center'): Promise<void>;
  };
  readonly context: {
    readonly path: string;
    readonly isReady: boolean;
    readonly model: {
      readonly dirty: boolean;
      readonly readOnly: boolean;
      /** "python". */
      readonly defaultKernelLanguage?: string;
      readonly sharedModel: {
        readonly cells: readonly SharedCell[];
        insertCell(
          index: number,
          cell: { cell_type: string; source: string; metadata: object }
        ): SharedCell;
        deleteCell(index: number): void;
      };
    };
  };
  readonly sessionContext: {
    readonly kernelDisplayName: string;
    readonly kernelDisplayStatus: string;
    readonly session: { readonly kernel: Kernel.IKernelConnection | null } | null;
  };
}

/** Where open notebooks are found. */
export type Notebooks = () => readonly NotebookPanel[];

/** Those of a shell: the one in front first, then the one that was in front last, then those in sight. */
export function notebooksOf(shell: JupyterFrontEnd.IShell): Notebooks {
  let last: Widget | null = null;
  shell.currentChanged?.connect(() => {
    const { currentWidget } = shell;
    last = currentWidget && isNotebook(currentWidget) ? currentWidget : last;
  });
  const rank = (panel: NotebookPanel): number =>
    panel === shell.currentWidget ? 0 : panel === last ? 1 : panel.isVisible ? 2 : 3;
  return () => [...shell.widgets('main')].filter(isNotebook).sort((a, b) => rank(a) - rank(b));
}

function isNotebook(widget: Widget): widget is NotebookPanel {
  const { content, context, sessionContext } = widget as unknown as Partial<NotebookPanel>;
  return (
    Array.isArray(content?.widgets) &&
    context?.isReady === true &&
    sessionContext !== undefined &&
    typeof context.model?.sharedModel?.insertCell === 'function'
  );
}
