import { afterEach, describe, expect, it, vi } from 'vitest';
import type { SessionState } from '../../ahp';
import { World } from '../../ahp/__tests__/world';
import { english } from '../../view/words';
import { CannotDo, type ClientTool, ClientTools } from '../tools/clientTools';
import type { Cell, NotebookPanel, Output } from '../tools/notebooks';
import { notebookTools } from '../tools/notebookTools';
import { bounded, picturesOf, textOfOutputs } from '../tools/outputs';

const SESSION = 'ahp-session:/s1';
const CHAT = 'ahp-chat:/c1';

afterEach(() => vi.restoreAllMocks());

function state(more: Partial<SessionState> = {}): SessionState {
  return {
    provider: 'assistant',
    title: '',
    status: 1,
    lifecycle: 'ready',
    activeClients: [],
    chats: [],
    ...more
  };
}

const TOOL: ClientTool = {
  definition: { name: 'add', title: 'Add up', inputSchema: { type: 'object' } },
  run: async ({ a, b }) => {
    if (typeof a !== 'number' || typeof b !== 'number') {
      throw new CannotDo('It takes two numbers.');
    }
    return { said: String(a + b), done: 'Added up' };
  }
};

async function attended(): Promise<{
  world: World;
  settle: () => Promise<void>;
  leave: () => void;
}> {
  const world = new World();
  world.host.states.set(SESSION, state());
  await world.start();
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 3; round++) {
      await world.settle();
      world.frame();
      await world.settle();
    }
  };
  const leave = new ClientTools(world.store, 'JupyterLab', [TOOL]).attend(SESSION);
  await settle();
  return { world, settle, leave };
}

function sent(world: World, type: string): Record<string, any>[] {
  return world.sockets
    .flatMap(socket => socket.requests('dispatchAction'))
    .map(message => message['params'].action)
    .filter(action => action.type === type);
}

describe('the tools of this page', () => {
  it('are announced once in a session whose chat is shown', async () => {
    const { world, settle } = await attended();
    const { clientId } = world.store.connection;
    expect(sent(world, 'session/activeClientSet').map(each => each['activeClient'])).toEqual([
      { clientId, displayName: 'JupyterLab', tools: [TOOL.definition] }
    ]);
    world.host.emit(SESSION, { type: 'session/titleChanged', title: 'Another' });
    await settle();
    expect(sent(world, 'session/activeClientSet')).toHaveLength(1);
  });

  it.each([
    ['{"a": 1, "b": 2}', true, '3'],
    ['{"a": 1}', false, 'It takes two numbers.'],
    ['[', false, 'JSON']
  ])('given %s: %s, %s', async (toolInput, success, says) => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const { world, settle } = await attended();
    const { clientId } = world.store.connection;
    const request = {
      id: 'r1',
      kind: 'toolClientExecution' as const,
      chat: CHAT,
      turnId: 't1',
      clientId,
      toolCall: {
        status: 'running' as const,
        toolCallId: 'call',
        toolName: 'add',
        displayName: 'Add up',
        invocationMessage: 'Adding',
        confirmed: 'not-needed' as const,
        toolInput
      }
    };
    world.host.states.set(CHAT, {
      resource: CHAT,
      title: '',
      status: 1,
      modifiedAt: '2026-12-01T10:00:00.000Z',
      turns: []
    });
    const other = { ...request, id: 'r2', clientId: 'somebody else' };
    world.host.emit(SESSION, { type: 'session/inputNeededSet', request: other });
    world.host.emit(SESSION, { type: 'session/inputNeededSet', request });
    await settle();
    world.host.emit(SESSION, { type: 'session/inputNeededSet', request }); // said once more
    await settle();
    const [done, ...more] = sent(world, 'chat/toolCallComplete');
    expect(more).toEqual([]);
    expect(done).toMatchObject({ turnId: 't1', toolCallId: 'call' });
    const { result } = done!;
    expect(result.success).toBe(success);
    expect(JSON.stringify(success ? result.content : result.error)).toContain(says);
  });
});

// --- notebooks ----------------------------------------------------------------------------------

interface Made {
  panel: NotebookPanel;
  sources(): string[];
}

function notebook(path: string, sources: string[], typing = -1): Made {
  const shared = (id: string, source: string) => {
    let text = source;
    return { id, getSource: () => text, setSource: (next: string) => void (text = next) };
  };
  const cells = sources.map((source, index) => shared(`c${index}`, source));
  const widgets = (): Cell[] =>
    cells.map((cell, index) => ({
      node: document.createElement('div'),
      model: { id: cell.id, type: 'code', sharedModel: cell, executionCount: 1, trusted: true },
      editor: { hasFocus: () => index === typing },
      outputArea: {
        model: { toJSON: (): Output[] => [{ output_type: 'stream', text: [`out ${index}\n`] }] },
        future: undefined as never
      }
    }));
  const panel = {
    content: {
      get widgets() {
        return widgets();
      }
    },
    context: {
      path,
      isReady: true,
      model: {
        dirty: false,
        readOnly: false,
        sharedModel: {
          cells,
          insertCell: (index: number, { source }: { source: string }) => {
            const cell = shared(`new${cells.length}`, source);
            cells.splice(index, 0, cell);
            return cell;
          },
          deleteCell: (index: number) => void cells.splice(index, 1)
        }
      }
    },
    sessionContext: { kernelDisplayName: 'Python 3', kernelDisplayStatus: 'idle', session: null }
  } as unknown as NotebookPanel;
  return { panel, sources: () => cells.map(cell => cell.getSource()) };
}

function toolsOf(...made: Made[]) {
  const tools = notebookTools({
    notebooks: () => made.map(({ panel }) => panel),
    open: async path => {
      if (path !== 'there.ipynb') {
        throw new Error('No such file');
      }
    },
    words: english
  });
  return async (name: string, given: Record<string, unknown> = {}): Promise<string> => {
    const { said } = await tools.find(({ definition }) => definition.name === name)!.run(given);
    return said;
  };
}

describe('the notebook tools', () => {
  it('list, read, insert, edit and delete, each in the notebook that it names', async () => {
    const a = notebook('a.ipynb', ['x = 1', 'x']);
    const b = notebook('dir/b.ipynb', ['y']);
    const call = toolsOf(a, b);
    expect(await call('list_notebooks')).toBe(
      'a.ipynb; 2 cells; kernel Python 3, idle; in front\ndir/b.ipynb; 1 cell; kernel Python 3, idle'
    );
    const read = await call('read_notebook');
    expect(read).toContain('a.ipynb: 2 cells, here 0 to 1.');
    expect(read).toContain('--- 1: code cell, id c1, run as [1]\nx\n--- its output:\nout 1');
    expect(await call('read_notebook', { start: 1, count: 1 })).not.toContain('x = 1');
    expect(await call('insert_cell', { path: 'dir/b.ipynb', source: 'z', after: '' })).toBe(
      'Inserted as cell 0 of dir/b.ipynb, id new1.'
    );
    await call('insert_cell', { source: 'end' });
    await call('edit_cell', { id: 'c1', source: 'print(x)' });
    await call('delete_cell', { id: 'c0' });
    expect(a.sources()).toEqual(['print(x)', 'end']);
    expect(b.sources()).toEqual(['z', 'y']);
    expect(await call('open_file', { path: 'there.ipynb' })).toBe('there.ipynb is open.');
  });

  it('refuse in words that help: where somebody types, what is not there, without a kernel', async () => {
    const call = toolsOf(notebook('a.ipynb', ['x', 'y'], 0));
    await expect(call('edit_cell', { id: 'c0', source: '' })).rejects.toThrow(
      'The person types in cell c0 of a.ipynb right now'
    );
    await expect(call('delete_cell', { id: 'c0' })).rejects.toThrow('types in cell');
    await expect(call('edit_cell', { id: 'c9', source: '' })).rejects.toThrow('no cell c9');
    await expect(call('read_notebook', { path: 'b.ipynb' })).rejects.toThrow('Open are: a.ipynb');
    await expect(call('run_cell', { id: 'c1' })).rejects.toThrow('no kernel');
    await expect(call('open_file', { path: 'gone' })).rejects.toThrow('No such file');
    await expect(toolsOf()('read_notebook')).rejects.toThrow('No notebook is open');
  });

  it('bound what a model is told of long cells, and read on from where they stopped', async () => {
    const long = notebook(
      'long.ipynb',
      Array.from({ length: 200 }, () => 'x'.repeat(9000))
    );
    const first = await toolsOf(long)('read_notebook');
    expect(first.length).toBeLessThan(70_000);
    expect(first).toContain('[… 3000 characters left out …]');
    const next = /read on with start (\d+)$/.exec(first)?.[1];
    expect(await toolsOf(long)('read_notebook', { start: Number(next) })).toContain(
      `--- ${next}: code`
    );
  });
});

describe('outputs', () => {
  it('are words for a model, with pictures beside them', () => {
    const outputs: Output[] = [
      { output_type: 'stream', text: '\u001b[31mred\u001b[0m\n' },
      { output_type: 'error', ename: 'E', evalue: 'v', traceback: ['\u001b[0;31mE\u001b[0m: v'] },
      {
        output_type: 'display_data',
        data: { 'image/png': 'aGk=\n', 'text/plain': '<Figure>' }
      },
      { output_type: 'execute_result', data: { 'text/html': '<b>x</b>' } }
    ];
    expect(textOfOutputs(outputs)).toBe(
      'red\nE: v\n<Figure>\n[a picture, image/png]\n[output of type text/html]'
    );
    expect(picturesOf(outputs)).toEqual([
      { type: 'embeddedResource', data: 'aGk=', contentType: 'image/png' }
    ]);
    expect(bounded('abcdefghij', 5)).toBe('abc\n[… 5 characters left out …]\nij');
  });
});
