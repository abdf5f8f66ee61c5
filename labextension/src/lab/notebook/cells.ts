import { metaOfCell, type Incoming, type Words } from '../../view';
import type { Cell, NotebookPanel } from '../tools/notebooks';
import { bounded, failedIn, picturesOf, textOfOutputs } from '../tools/outputs';

/** A notebook's name, as people call it. */
export function nameOf(panel: NotebookPanel): string {
  return panel.context.path.split('/').at(-1) ?? panel.context.path;
}

/** The cells that a person has selected, in order; the active one is always among them. */
export function selected(panel: NotebookPanel): readonly Cell[] {
  const { content } = panel;
  return content.widgets.filter(cell => content.isSelectedOrActive(cell));
}

/** The cell that an element is in, with its notebook. */
export function cellAround(
  panels: readonly NotebookPanel[],
  element: Element
): { panel: NotebookPanel; cell: Cell } | undefined {
  for (const panel of panels) {
    const cell = panel.content.widgets.find(({ node }) => node.contains(element));
    if (cell) {
      return { panel, cell };
    }
  }
  return undefined;
}

function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map(run => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

/** Which of a cell goes along. */
export type What = 'cell' | 'output';

/** Cells as they go into a chat: what is in them, what they put out, and the pictures among that. */
export function attachmentsOf(
  panel: NotebookPanel,
  cells: readonly Cell[],
  what: What,
  { t }: Words
): Pick<Incoming, 'attachments' | 'files'> {
  const { path, model } = panel.context;
  const language = model.defaultKernelLanguage ?? '';
  const files: File[] = [];
  const attachments = cells.map(cell => {
    const { id, type, sharedModel } = cell.model;
    const number = panel.content.widgets.indexOf(cell) + 1;
    const outputs = cell.outputArea?.model.toJSON() ?? [];
    const failed = failedIn(outputs);
    const said = textOfOutputs(outputs);
    const name = nameOf(panel);
    for (const { data, contentType } of picturesOf(outputs).flatMap(picture =>
      picture.type === 'embeddedResource' ? [picture] : []
    )) {
      const bytes = Uint8Array.from(atob(data), character => character.charCodeAt(0));
      const kind = contentType === 'image/jpeg' ? 'jpg' : 'png';
      files.push(
        new File([bytes], `${t('cell')}-${number}-${files.length + 1}.${kind}`, {
          type: contentType
        })
      );
    }
    return {
      type: 'simple',
      label:
        what === 'output'
          ? failed
            ? t('Error of cell %1, %2', number, name)
            : t('Output of cell %1, %2', number, name)
          : t('Cell %1, %2', number, name),
      modelRepresentation: [
        `Cell ${number} (${type}, id ${id}) of the notebook ${path}`,
        ...(what === 'cell' || failed
          ? [fenced(bounded(sharedModel.getSource()), type === 'code' ? language : type)]
          : []),
        ...(said ? [failed ? 'It failed:' : 'It put out:', fenced(said, '')] : [])
      ].join('\n'),
      _meta: metaOfCell({ path, id })
    } as const;
  });
  return { attachments, files };
}
