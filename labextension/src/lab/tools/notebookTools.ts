/** What agents may do with the notebooks that are open in this page. Each tool says which notebook it was about. */

import type { Words } from '../../view';
import { CannotDo, type ClientTool, type Done } from './clientTools';
import type { Cell, NotebookPanel, Notebooks } from './notebooks';
import { bounded, failedIn, picturesOf, textOfOutputs } from './outputs';
import { runCell } from './run';

const LONGEST_SOURCE = 6_000;
const LONGEST_OUTPUT = 1_500;
/** Cells that are read at once, unless fewer are asked for; and characters of all of them. */
const PAGE = 60;
const LONGEST_PAGE = 60_000;
const PATIENCE_S = 120;

export interface NotebookToolsOptions {
  readonly notebooks: Notebooks;
  /** Opens a file of the server's in this page; rejects when there is none. */
  readonly open: (path: string) => Promise<void>;
  readonly words: Words;
}

type Given = Readonly<Record<string, unknown>>;

const PATH = {
  type: 'string',
  description: 'Path of an open notebook, as list_notebooks has it. The one in front, if left out.'
};
const CELL = { type: 'string', description: 'Id of the cell, as read_notebook has it.' };
const SOURCE = { type: 'string', description: 'The whole text of the cell.' };
const TYPE = { type: 'string', enum: ['code', 'markdown', 'raw'] };

export function notebookTools({ notebooks, open, words }: NotebookToolsOptions): ClientTool[] {
  const { t, n } = words;

  const find = (given: Given): NotebookPanel => {
    const all = notebooks();
    const path = given['path'];
    const panel = path === undefined ? all[0] : all.find(each => each.context.path === path);
    if (!panel) {
      const paths = all.map(each => each.context.path).join(', ');
      throw new CannotDo(
        path === undefined
          ? 'No notebook is open in JupyterLab. open_file opens one.'
          : `No notebook ${String(path)} is open. Open are: ${paths || 'none'}. open_file opens one.`
      );
    }
    return panel;
  };
  const cellOf = (panel: NotebookPanel, id: unknown): { cell: Cell; index: number } => {
    const index = panel.content.widgets.findIndex(({ model }) => model.id === id);
    const cell = panel.content.widgets[index];
    if (!cell) {
      throw new CannotDo(
        `${panel.context.path} has no cell ${String(id)}, or not any more. read_notebook says which it has.`
      );
    }
    return { cell, index };
  };
  const writable = (panel: NotebookPanel, cell?: Cell): void => {
    if (panel.context.model.readOnly) {
      throw new CannotDo(`${panel.context.path} is read-only.`);
    }
    if (cell?.editor?.hasFocus()) {
      throw new CannotDo(
        `The person types in cell ${cell.model.id} of ${panel.context.path} right now. Leave it, or try again later.`
      );
    }
  };
  const described = (cell: Cell, index: number): string => {
    const { id, type, executionCount, sharedModel } = cell.model;
    const count = type === 'code' && executionCount ? `, run as [${executionCount}]` : '';
    const outputs = cell.outputArea?.model.toJSON() ?? [];
    const text = textOfOutputs(outputs, LONGEST_OUTPUT);
    return [
      `--- ${index}: ${type} cell, id ${id}${count}`,
      bounded(sharedModel.getSource(), LONGEST_SOURCE),
      ...(text ? ['--- its output:', text] : [])
    ].join('\n');
  };
  const about = (panel: NotebookPanel): string => name(panel.context.path);

  const tools: [
    name: string,
    title: string,
    description: string,
    reads: boolean,
    properties: Record<string, unknown>,
    required: string[],
    run: (given: Given) => Promise<Done> | Done
  ][] = [
    [
      'list_notebooks',
      t('List open notebooks'),
      'Which notebooks are open in the JupyterLab of the person, the one in front first, with the state of their kernels.',
      true,
      {},
      [],
      () => {
        const all = notebooks();
        const lines = all.map(({ context, content, sessionContext }, index) =>
          [
            context.path,
            n('%1 cell', '%1 cells', content.widgets.length),
            `kernel ${sessionContext.kernelDisplayName}, ${sessionContext.kernelDisplayStatus}`,
            ...(index === 0 ? ['in front'] : []),
            ...(context.model.dirty ? ['not saved'] : [])
          ].join('; ')
        );
        return {
          said: lines.join('\n') || 'No notebook is open. open_file opens one.',
          done: n('Listed %1 notebook', 'Listed %1 notebooks', all.length)
        };
      }
    ],
    [
      'read_notebook',
      t('Read a notebook'),
      'Cells of an open notebook, in order, with their ids, sources and outputs. Long ones are cut, with word of it.',
      true,
      {
        path: PATH,
        start: { type: 'integer', minimum: 0, description: 'The first cell, counted from 0.' },
        count: { type: 'integer', minimum: 1, maximum: PAGE }
      },
      [],
      given => {
        const panel = find(given);
        const { widgets } = panel.content;
        const start = number(given['start'], 0);
        const asked = widgets.slice(start, start + number(given['count'], PAGE));
        const pieces: string[] = [];
        let length = 0;
        for (const [index, cell] of asked.entries()) {
          const piece = described(cell, start + index);
          length += piece.length;
          if (length > LONGEST_PAGE && index > 0) {
            break;
          }
          pieces.push(piece);
        }
        const end = start + pieces.length;
        const rest = widgets.length - end;
        const head = `${panel.context.path}: ${widgets.length} cells, here ${start} to ${end - 1}.`;
        return {
          said: [
            pieces.length
              ? head
              : `${panel.context.path}: ${widgets.length} cells, none from ${start} on.`,
            ...pieces,
            ...(rest > 0 ? [`--- ${rest} more: read on with start ${end}`] : [])
          ].join('\n'),
          done: n('Read %1 cell of', 'Read %1 cells of', pieces.length) + ` ${about(panel)}`
        };
      }
    ],
    [
      'insert_cell',
      t('Insert a cell'),
      'Insert a cell into an open notebook, behind another one, or at the end. Answers its id. It is not run.',
      false,
      {
        path: PATH,
        source: SOURCE,
        type: TYPE,
        after: {
          ...CELL,
          description: 'Id of the cell to stand behind; "" for the beginning; left out: the end.'
        }
      },
      ['source'],
      given => {
        const panel = find(given);
        writable(panel);
        const { sharedModel } = panel.context.model;
        const after = given['after'];
        const index =
          after === undefined
            ? sharedModel.cells.length
            : after === ''
              ? 0
              : cellOf(panel, after).index + 1;
        const cell = sharedModel.insertCell(index, {
          cell_type: typeof given['type'] === 'string' ? given['type'] : 'code',
          source: String(given['source']),
          metadata: {}
        });
        return {
          said: `Inserted as cell ${index} of ${panel.context.path}, id ${cell.id}.`,
          done: t('Inserted a cell into %1', about(panel))
        };
      }
    ],
    [
      'edit_cell',
      t('Edit a cell'),
      'Replace the text of a cell of an open notebook. The person can undo it. It is not run.',
      false,
      { path: PATH, id: CELL, source: SOURCE },
      ['id', 'source'],
      given => {
        const panel = find(given);
        const { cell, index } = cellOf(panel, given['id']);
        writable(panel, cell);
        cell.model.sharedModel.setSource(String(given['source']));
        return {
          said: `Cell ${index} of ${panel.context.path} has the new text.`,
          done: t('Edited a cell of %1', about(panel))
        };
      }
    ],
    [
      'delete_cell',
      t('Delete a cell'),
      'Delete a cell of an open notebook. The person can undo it.',
      false,
      { path: PATH, id: CELL },
      ['id'],
      given => {
        const panel = find(given);
        const { cell, index } = cellOf(panel, given['id']);
        writable(panel, cell);
        panel.context.model.sharedModel.deleteCell(index);
        return {
          said: `Cell ${index} of ${panel.context.path} is deleted; those behind it moved up.`,
          done: t('Deleted a cell of %1', about(panel))
        };
      }
    ],
    [
      'run_cell',
      t('Run a cell'),
      'Run a code cell of an open notebook in its kernel, wait for it, and answer what it put out.',
      false,
      {
        path: PATH,
        id: CELL,
        seconds: {
          type: 'integer',
          minimum: 1,
          maximum: 3600,
          description: `How long to wait for it; ${PATIENCE_S} if left out. It runs on behind that.`
        }
      },
      ['id'],
      async given => {
        const panel = find(given);
        const { cell } = cellOf(panel, given['id']);
        const { path } = panel.context;
        writable(panel, cell);
        if (cell.model.type === 'markdown') {
          cell.rendered = true;
          return {
            said: 'It is a markdown cell: it was rendered.',
            done: t('Rendered a cell of %1', about(panel))
          };
        }
        if (cell.model.type !== 'code') {
          throw new CannotDo(
            `Cell ${cell.model.id} of ${path} is no code: there is nothing to run.`
          );
        }
        const seconds = number(given['seconds'], PATIENCE_S);
        const ended = await runCell(panel, cell, seconds);
        const outputs = cell.outputArea?.model.toJSON() ?? [];
        const text = textOfOutputs(outputs);
        if (!ended) {
          return {
            said: `It still runs after ${seconds} s. So far it put out:\n${text || 'nothing'}\nread_outputs says more later.`,
            done: t('Started a cell of %1, which still runs', about(panel))
          };
        }
        const failure = failedIn(outputs);
        if (failure) {
          throw new CannotDo(
            `The cell of ${path} ran, and raised ${failure.ename}. It put out:\n${text}`
          );
        }
        return {
          said: text || 'It ran, and put out nothing.',
          done: t('Ran a cell of %1', about(panel)),
          content: picturesOf(outputs)
        };
      }
    ],
    [
      'read_outputs',
      t('Read the outputs of a cell'),
      'All that a code cell of an open notebook has put out, with its pictures.',
      true,
      { path: PATH, id: CELL },
      ['id'],
      given => {
        const panel = find(given);
        const { cell } = cellOf(panel, given['id']);
        const outputs = cell.outputArea?.model.toJSON() ?? [];
        return {
          said: textOfOutputs(outputs, 30_000) || 'It has put out nothing.',
          done: t('Read the outputs of a cell of %1', about(panel)),
          content: picturesOf(outputs)
        };
      }
    ],
    [
      'open_file',
      t('Open a file'),
      'Open a file or a notebook of the server in the JupyterLab of the person, beside what is open.',
      true,
      { path: { type: 'string', description: 'Path from the directory that the server serves.' } },
      ['path'],
      async given => {
        const path = String(given['path']);
        try {
          await open(path);
        } catch (error) {
          throw new CannotDo(`${path} cannot be opened: ${(error as Error).message}`);
        }
        return { said: `${path} is open.`, done: t('Opened %1', name(path)) };
      }
    ]
  ];

  return tools.map(([toolName, title, description, reads, properties, required, run]) => ({
    definition: {
      name: toolName,
      title,
      description,
      inputSchema: { type: 'object', properties, required, additionalProperties: false },
      annotations: { readOnlyHint: reads }
    },
    run: async given => run(given)
  }));
}

function number(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}

function name(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
