import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { URI } from '../../ahp';
import type { CellPlace, Incoming, Words } from '../../view';
import { CommandIDs } from '../commands';
import { chatIcon } from '../icon';
import type { Cell, NotebookPanel, Notebooks } from '../tools/notebooks';
import { failedIn } from '../tools/outputs';
import { attachmentsOf, cellAround, nameOf, selected, type What } from './cells';
import { offerUnderErrors } from './errors';
import type { Inbox } from './inbox';

const FLASH = 'jp-ahp-flash';

export interface NotebookOptions {
  readonly app: JupyterFrontEnd;
  readonly notebooks: Notebooks;
  readonly rendermime: IRenderMimeRegistry;
  readonly palette: ICommandPalette | null;
  readonly words: Words;
  readonly inbox: Inbox;
  /** The chat that a person means, in front of them; begins one where none is. */
  readonly chat: () => Promise<URI>;
  /** What runs commands in a chat (`!`), if this host does. */
  readonly prefix: () => string | undefined;
}

/** Cells to chats: the commands, and the button under an error. */
export function addNotebookCommands(options: NotebookOptions): void {
  const { app, notebooks, rendermime, palette, words, inbox, chat, prefix } = options;
  const { commands } = app;
  const { t } = words;
  const front = (): NotebookPanel | undefined => notebooks()[0];
  const activeOf = (panel: NotebookPanel | undefined): Cell | null =>
    panel?.content.activeCell ?? null;
  const put = async (incoming: Incoming): Promise<void> => inbox.put(await chat(), incoming);
  const attach = async (what: What): Promise<void> => {
    const panel = front();
    if (panel) {
      await put(attachmentsOf(panel, selected(panel), what, words));
    }
  };
  const fix = async (panel: NotebookPanel, cell: Cell): Promise<void> =>
    put({ ...attachmentsOf(panel, [cell], 'cell', words), text: t('Fix this error.') });
  const outputs = (cell: Cell): ReturnType<NonNullable<Cell['outputArea']>['model']['toJSON']> =>
    cell.outputArea?.model.toJSON() ?? [];
  const commandIn = (cell: Cell | null): string | undefined => {
    const mark = prefix();
    const source = cell?.model.sharedModel.getSource().trim() ?? '';
    return mark && source.startsWith(mark) ? source : undefined;
  };

  commands.addCommand(CommandIDs.attachCells, {
    label: args =>
      args['isPalette'] ? t('Attach the selected cells to a chat') : t('Attach to a chat'),
    caption: t('Attach the selected cells, with what they put out, to a chat'),
    icon: args => (args['isPalette'] ? undefined : chatIcon),
    isEnabled: () => activeOf(front()) !== null,
    execute: () => attach('cell')
  });
  commands.addCommand(CommandIDs.attachOutput, {
    label: t('Attach the output to a chat'),
    isEnabled: () => {
      const panel = front();
      return panel !== undefined && selected(panel).some(cell => outputs(cell).length > 0);
    },
    execute: () => attach('output')
  });
  commands.addCommand(CommandIDs.fixError, {
    label: t('Fix the error of the active cell in a chat'),
    isEnabled: () => {
      const cell = activeOf(front());
      return cell !== null && failedIn(outputs(cell)) !== undefined;
    },
    execute: async () => {
      const panel = front();
      const cell = activeOf(panel);
      if (panel && cell) {
        await fix(panel, cell);
      }
    }
  });
  commands.addCommand(CommandIDs.runCellInChat, {
    label: t('Run the command of this cell in a chat'),
    isVisible: args => args['isPalette'] === true || commandIn(activeOf(front())) !== undefined,
    isEnabled: () => commandIn(activeOf(front())) !== undefined,
    execute: async () => {
      const say = commandIn(activeOf(front()));
      if (say) {
        await put({ say });
      }
    }
  });
  for (const command of [
    CommandIDs.attachCells,
    CommandIDs.attachOutput,
    CommandIDs.fixError,
    CommandIDs.runCellInChat
  ]) {
    palette?.addItem({ command, category: t('Chat'), args: { isPalette: true } });
  }

  offerUnderErrors(rendermime, t('Fix this error'), button => {
    const found = cellAround(notebooks(), button);
    if (found) {
      void fix(found.panel, found.cell);
    }
  });
}

/** Goes to a cell: its notebook is opened, it is made the active one, and it flashes once. */
export async function showCell(
  { path, id }: CellPlace,
  app: JupyterFrontEnd,
  notebooks: Notebooks,
  open: (path: string) => Promise<void>,
  { t }: Words
): Promise<void> {
  const find = (): NotebookPanel | undefined =>
    notebooks().find(({ context }) => context.path === path);
  if (!find()) {
    await open(path).catch((error: Error) => {
      throw new Error(t('%1 could not be opened. %2', path, error.message));
    });
  }
  const panel = find();
  const at = panel?.content.widgets.findIndex(({ model }) => model.id === id) ?? -1;
  if (!panel || at < 0) {
    throw new Error(t('The cell is not in %1 any more.', panel ? nameOf(panel) : path));
  }
  app.shell.activateById(panel.id);
  panel.content.activeCellIndex = at;
  await panel.content.scrollToItem?.(at, 'center');
  const { node } = panel.content.widgets[at];
  node.classList.remove(FLASH);
  node.addEventListener('animationend', () => node.classList.remove(FLASH), { once: true });
  node.classList.add(FLASH);
}
