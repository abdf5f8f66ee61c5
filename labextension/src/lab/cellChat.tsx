import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { createRoot, type Root } from 'react-dom/client';
import type { AhpStore } from '../ahp';
import { quiet, type ViewHost } from '../view';
import { HIGHEST, LOWEST } from '../view/Grip';
import { WidgetView } from '../widget/WidgetView';

/** What a chat's output says of it: `{chat, session, height}`. */
export const CHAT_MIME = 'application/vnd.jupyter-ahp.chat+json';
const HTML_MIME = 'text/html';
/** Before the widget's view, which has -10 and is lost with its kernel. */
const RANK = -20;
const HEIGHT = 400;

export interface CellChatOptions {
  /** The page's store; asked for when the first chat is shown. */
  readonly connect: () => AhpStore;
  readonly host: ViewHost;
}

/** Shows chats in outputs from what the notebook says of them, so that they need no kernel. */
export function showChatsInCells(rendermime: IRenderMimeRegistry, options: CellChatOptions): void {
  rendermime.addFactory(
    {
      // it runs nothing of the notebook's
      safe: true,
      mimeTypes: [CHAT_MIME],
      createRenderer: ({ sanitizer }) => new CellChat(options, sanitizer)
    },
    RANK
  );
}

/**
 * A chat in an output. What is typed, the height and the place in the log stay while a notebook takes the cell off the page
 * and puts it back: the view lives until the output is disposed of.
 */
export class CellChat extends Widget implements IRenderMime.IRenderer {
  private readonly _root: Root;
  /** How far the log was scrolled when it was last on the page, which forgets it. */
  private _top = 0;

  constructor(
    private readonly _options: CellChatOptions,
    private readonly _sanitizer: IRenderMime.ISanitizer
  ) {
    super();
    this.addClass('jp-ahp-Cell');
    this._root = createRoot(this.node);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { chat, session, height } = read(model.data[CHAT_MIME]);
    const html = model.data[HTML_MIME];
    this._root.render(
      <WidgetView
        chat={chat}
        session={session}
        height={height}
        saved={() => quiet(this._sanitizer.sanitize(typeof html === 'string' ? html : ''))}
        store={this._options.connect()}
        host={this._options.host}
        throughKernel={false}
        inLab
      />
    );
  }

  protected override onBeforeDetach(message: Message): void {
    this._top = this._log?.scrollTop ?? 0;
    super.onBeforeDetach(message);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (this._log) {
      this._log.scrollTop = this._top;
    }
  }

  private get _log(): HTMLElement | null {
    return this.node.querySelector('[role="log"]');
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._root.unmount();
      super.dispose();
    }
  }
}

/** Notebooks come from anywhere: without a chat's URI, what was saved is shown. */
function read(said: unknown): { chat: string; session: string | undefined; height: number } {
  const { chat, session, height } = (said ?? {}) as Record<string, unknown>;
  return {
    chat: typeof chat === 'string' ? chat : '',
    session: typeof session === 'string' && session ? session : undefined,
    height: typeof height === 'number' ? Math.min(HIGHEST, Math.max(LOWEST, height)) : HEIGHT
  };
}
