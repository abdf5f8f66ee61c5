import type { Cell, NotebookPanel } from './notebooks';
import { CannotDo } from './clientTools';

/** Runs a code cell in its notebook's kernel, as its notebook would; false when it still runs after so many seconds. */
export async function runCell(panel: NotebookPanel, cell: Cell, seconds: number): Promise<boolean> {
  const { path } = panel.context;
  const kernel = panel.sessionContext.session?.kernel;
  const { model, outputArea } = cell;
  if (!kernel || !outputArea) {
    throw new CannotDo(`${path} has no kernel. Ask the person to start one.`);
  }
  const code = model.sharedModel.getSource();
  model.clearExecution?.();
  model.trusted = true; // what it puts out now was made here
  cell.setPrompt?.('*');
  const future = kernel.requestExecute({ code, stop_on_error: true, store_history: true }, false, {
    cellId: model.id,
    deletedCells: [],
    recordTiming: false
  });
  outputArea.future = future;
  const ended = future.done.then(
    reply => {
      model.executionCount = reply.content.execution_count;
      return true;
    },
    (error: Error) => {
      throw new CannotDo(
        `The kernel of ${path} did not finish it: ${error.message || 'it was stopped.'}`
      );
    }
  );
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>(resolve => {
    timer = setTimeout(() => resolve(false), seconds * 1000);
  });
  ended.catch(() => undefined); // one that fails after it was waited for is seen in its notebook
  try {
    return await Promise.race([ended, late]);
  } finally {
    clearTimeout(timer);
  }
}
