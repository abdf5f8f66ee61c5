import type { CommandRegistry } from '@lumino/commands';
import type { CodeActions } from '../../view';
import type { Notebooks, NotebookPanel } from '../tools/notebooks';
import { runCell } from '../tools/run';
import { nameOf } from './cells';

const SHELL = /^(?:bash|sh|shell|zsh|console)$/i;
const MARKDOWN = /^(?:md|markdown)$/i;
/** Seconds after which a cell that still runs is left to run. */
const PATIENCE = 1;

async function opened(notebooks: Notebooks, commands: CommandRegistry): Promise<NotebookPanel> {
  const [open] = notebooks();
  if (open) {
    return open;
  }
  const made = (await commands.execute('notebook:create-new')) as NotebookPanel | undefined;
  await (made?.context as { ready?: Promise<void> } | undefined)?.ready;
  const panel = made ?? notebooks()[0];
  if (!panel) {
    throw new Error('No notebook could be opened');
  }
  return panel;
}

/** What is done with code of an answer in the notebook that was in front last; that notebook's undo takes it back. */
export function codeActions(notebooks: Notebooks, commands: CommandRegistry): CodeActions {
  const active = (): NotebookPanel | undefined => notebooks()[0];
  return {
    where: () => {
      const panel = active();
      return panel && nameOf(panel);
    },
    insert: async (code, language, run) => {
      const panel = await opened(notebooks, commands);
      const { content, context } = panel;
      if (context.model.readOnly) {
        throw new Error(`${nameOf(panel)} can only be read`);
      }
      const markdown = MARKDOWN.test(language);
      const shell = SHELL.test(language) && context.model.defaultKernelLanguage === 'python';
      const at = content.activeCell ? content.activeCellIndex + 1 : content.widgets.length;
      context.model.sharedModel.insertCell(at, {
        cell_type: markdown ? 'markdown' : 'code',
        source: shell ? `%%bash\n${code}` : code,
        metadata: markdown ? {} : { trusted: true }
      });
      content.activeCellIndex = at;
      await content.scrollToItem?.(at, 'smart');
      const cell = content.widgets[at];
      if (run && cell && !markdown) {
        await runCell(panel, cell, PATIENCE);
      }
    },
    replace: async code => {
      const panel = active();
      const cell = panel?.content.activeCell;
      if (!panel || !cell) {
        throw new Error('No notebook is open');
      }
      if (panel.context.model.readOnly) {
        throw new Error(`${nameOf(panel)} can only be read`);
      }
      cell.model.sharedModel.setSource(code);
      await panel.content.scrollToItem?.(panel.content.activeCellIndex, 'smart');
    }
  };
}
