import { Clipboard, Dialog, showDialog } from '@jupyterlab/apputils';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { CommandRegistry } from '@lumino/commands';
import type { URI } from '../ahp';
import { type CellPlace, type ChatRef, quiet, type ViewHost, type Words } from '../view';
import { CommandIDs } from './commands';

const MARKDOWN = 'text/markdown';

export interface LabHostOptions {
  readonly commands: CommandRegistry;
  readonly rendermime: IRenderMimeRegistry;
  readonly words: Words;
  readonly locale: string | undefined;
  /** Shows a canvas in a tab; absent in shells that have none. */
  readonly showCanvas?: (canvas: URI, chat: URI) => void;
  /** Offers what this page can do in a session, until the undo is called. */
  readonly attend: (session: URI) => () => void;
  readonly receive: ViewHost['receive'];
  readonly code: ViewHost['code'];
  readonly showCell: (place: CellPlace) => Promise<void>;
}

/** JupyterLab as the place of a chat: its renderers, its dialogs, its commands. */
export function labHost(options: LabHostOptions): ViewHost {
  const { commands, rendermime, words, locale, showCanvas, attend, receive, code, showCell } =
    options;
  const base = rendermime.sanitizer;
  // all of the sanitiser that JupyterLab is set up with, and ours after it
  const sanitizer: typeof base = Object.create(base, {
    sanitize: {
      value: (...args: Parameters<typeof base.sanitize>) => quiet(base.sanitize(...args))
    }
  });
  const renderers = rendermime.clone({ sanitizer });
  const typesetter = rendermime.latexTypesetter;
  return {
    words,
    locale,
    renderMarkdown: async source => {
      const renderer = renderers.createRenderer(MARKDOWN);
      await renderer.renderModel(
        renderers.createModel({ data: { [MARKDOWN]: source }, trusted: false })
      );
      return renderer.node;
    },
    typeset: element => typesetter?.typeset(element),
    copy: async text => {
      // not there on pages that came by plain http
      if (navigator.clipboard) {
        await navigator.clipboard.writeText(text);
      } else {
        Clipboard.copyToSystem(text);
      }
    },
    confirm: async ({ title, body, action }) => {
      const result = await showDialog({
        title,
        body,
        buttons: [
          Dialog.cancelButton({ label: words.t('Cancel') }),
          Dialog.warnButton({ label: action })
        ],
        defaultButton: 0 // what cannot be undone is not done by Enter alone
      });
      return result.button.accept;
    },
    openChat: ({ chat, session }: ChatRef, area) => {
      void commands.execute(CommandIDs.openChat, {
        uri: chat,
        area,
        ...(session ? { session } : {})
      });
    },
    openCanvas: showCanvas,
    attend,
    receive,
    code,
    showCell,
    nextNeedsYou: () => void commands.execute(CommandIDs.nextNeedsYou),
    newChat: agent => void commands.execute(CommandIDs.newChat, agent ? { agent } : {})
  };
}
