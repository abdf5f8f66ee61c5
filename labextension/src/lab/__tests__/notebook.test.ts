import { describe, expect, it, vi } from 'vitest';
import { english } from '../../view/words';
import { attachmentsOf } from '../notebook/cells';
import { codeActions } from '../notebook/code';
import { Inbox } from '../notebook/inbox';
import type { Cell, NotebookPanel, Output } from '../tools/notebooks';

const CHAT = 'ahp-chat:/c1';

function cell(id: string, source: string, outputs: Output[] = [], type = 'code'): Cell {
  return {
    node: document.createElement('div'),
    model: {
      id,
      type,
      trusted: true,
      sharedModel: { id, getSource: () => source, setSource: vi.fn() }
    },
    ...(type === 'code' ? { outputArea: { model: { toJSON: () => outputs } } } : {})
  } as unknown as Cell;
}

function notebook(cells: Cell[], readOnly = false): NotebookPanel {
  return {
    content: {
      widgets: cells,
      activeCell: cells[0] ?? null,
      activeCellIndex: 0,
      isSelectedOrActive: () => true
    },
    context: {
      path: 'work/a.ipynb',
      model: { readOnly, defaultKernelLanguage: 'python', sharedModel: { insertCell: vi.fn() } }
    }
  } as unknown as NotebookPanel;
}

describe('the inbox', () => {
  it('keeps what comes before there is a box, and hands it over once', () => {
    const inbox = new Inbox();
    inbox.put(CHAT, { text: 'early' });
    const first = vi.fn();
    const leave = inbox.receive(CHAT, first);
    expect(first.mock.calls).toEqual([[{ text: 'early' }]]);
    const second = vi.fn();
    inbox.receive(CHAT, second);
    inbox.put(CHAT, { text: 'late' });
    leave();
    inbox.put(CHAT, { text: 'later' });
    expect(first).toHaveBeenCalledTimes(1);
    expect(second.mock.calls).toEqual([[{ text: 'late' }], [{ text: 'later' }]]);
  });
});

describe('cells as attachments', () => {
  it('fences a source that has fences, and says of whose place it is', () => {
    const panel = notebook([cell('a', '"""```python```"""', [], 'markdown')]);
    const { attachments = [] } = attachmentsOf(panel, panel.content.widgets, 'cell', english);
    expect(attachments).toEqual([
      {
        type: 'simple',
        label: 'Cell 1, a.ipynb',
        modelRepresentation:
          'Cell 1 (markdown, id a) of the notebook work/a.ipynb\n' +
          '````markdown\n"""```python```"""\n````',
        _meta: { 'jupyter-ahp.kind': 'cell', 'jupyter-ahp.cell': { path: 'work/a.ipynb', id: 'a' } }
      }
    ]);
  });

  it('has the source with an error, even where only what it put out is wanted', () => {
    const error: Output = {
      output_type: 'error',
      ename: 'ValueError',
      evalue: 'no',
      traceback: ['\u001b[31mValueError\u001b[0m: no']
    };
    const panel = notebook([cell('a', 'f()', [error]), cell('b', 'g()')]);
    const { attachments = [] } = attachmentsOf(panel, panel.content.widgets, 'output', english);
    const [failed, silent] = attachments as readonly {
      label: string;
      modelRepresentation: string;
    }[];
    expect(failed.label).toBe('Error of cell 1, a.ipynb');
    expect(failed.modelRepresentation).toContain('f()');
    expect(failed.modelRepresentation).toContain('It failed:\n```\nValueError: no\n```');
    expect(silent.modelRepresentation).not.toContain('g()');
  });
});

describe('code of an answer', () => {
  it('becomes a cell of its own kind, and nothing where the notebook can only be read', async () => {
    const panel = notebook([cell('a', '1')]);
    const { insertCell } = panel.context.model.sharedModel;
    const code = codeActions(() => [panel], { execute: vi.fn() } as never);
    expect(code.where()).toBe('a.ipynb');
    await code.insert('ls', 'bash', false);
    await code.insert('# Title', 'markdown', true);
    expect(
      vi.mocked(insertCell).mock.calls.map(([at, { cell_type, source }]) => [at, cell_type, source])
    ).toEqual([
      [1, 'code', '%%bash\nls'],
      [2, 'markdown', '# Title']
    ]);
    const locked = codeActions(() => [notebook([cell('a', '1')], true)], {} as never);
    await expect(locked.insert('1', 'python', false)).rejects.toThrow('a.ipynb can only be read');
    await expect(codeActions(() => [], {} as never).replace('1')).rejects.toThrow(
      'No notebook is open'
    );
  });
});
