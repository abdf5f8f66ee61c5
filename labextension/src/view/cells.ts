/** Cells as attachments: what stands of a cell's place in a message that carries it. */

import type { Attachment } from '../ahp';

/** Where a cell is: its notebook's path on the server, and its id in it. */
export interface CellPlace {
  readonly path: string;
  readonly id: string;
}

const KIND = 'jupyter-ahp.kind';
const CELL = 'jupyter-ahp.cell';

/** For the `_meta` of an attachment that is of that cell. */
export function metaOfCell(place: CellPlace): Record<string, unknown> {
  return { [KIND]: 'cell', [CELL]: place };
}

export function isCell({ _meta }: Attachment): boolean {
  return _meta?.[KIND] === 'cell';
}

/** The cell that an attachment is of, where it says that. */
export function cellOf({ _meta }: Attachment): CellPlace | undefined {
  const { path, id } = (_meta?.[CELL] ?? {}) as Partial<CellPlace>;
  return typeof path === 'string' && typeof id === 'string' ? { path, id } : undefined;
}
