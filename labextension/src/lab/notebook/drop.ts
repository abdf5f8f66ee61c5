import type { Drag } from '@lumino/dragdrop';
import type { Incoming, Words } from '../../view';
import type { Cell, Notebooks } from '../tools/notebooks';
import { attachmentsOf } from './cells';

/** The cells that are dragged, as JupyterLab's notebook says it. */
const CELLS = 'internal:cells';

/** Lets cells be dropped on what shows a chat. `put` is handed what they are as attachments. */
export function takesCells(
  node: HTMLElement,
  notebooks: Notebooks,
  words: Words,
  put: (incoming: Incoming) => boolean
): void {
  const over = (event: Event): void => {
    const drag = event as Drag.Event;
    if (drag.mimeData.hasData(CELLS)) {
      drag.preventDefault();
      drag.stopPropagation();
      drag.dropAction = 'copy';
    }
  };
  node.addEventListener('lm-dragenter', over);
  node.addEventListener('lm-dragover', over);
  node.addEventListener('lm-drop', event => {
    const drag = event as Drag.Event;
    if (!drag.mimeData.hasData(CELLS)) {
      return;
    }
    const cells = drag.mimeData.getData(CELLS) as readonly Cell[];
    const panel = notebooks().find(({ content }) => content.widgets.includes(cells[0]));
    const taken = panel && put(attachmentsOf(panel, cells, 'cell', words));
    drag.preventDefault();
    drag.stopPropagation();
    drag.dropAction = taken ? 'copy' : 'none';
  });
}
