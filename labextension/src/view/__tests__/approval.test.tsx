import { fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ToolCallAction } from '../../ahp';
import { browser, CHAT, leave, showChat, type Stage } from './stage';

beforeEach(browser);
afterEach(leave);

type Ready = Partial<Extract<ToolCallAction, { type: 'chat/toolCallReady' }>>;

async function asks(ready: Ready, files: Record<string, string> = {}): Promise<Stage> {
  const stage = await showChat(
    {},
    {
      set: world =>
        (world.host.answers['resourceRead'] = ({ uri }) => {
          const text = files[uri as string];
          return text === undefined
            ? { error: { code: -32008, message: `${uri} is not there.` } }
            : { result: { data: text, encoding: 'utf-8' } };
        })
    }
  );
  const { host } = stage.world;
  const names = { turnId: 't1', toolCallId: 'call' };
  host.emit(CHAT, {
    type: 'chat/turnStarted',
    turnId: 't1',
    startedAt: new Date().toISOString(),
    message: { text: 'go', origin: { kind: 'user' } }
  });
  const tool = { toolName: 'write', displayName: 'Write a file' };
  host.emit(CHAT, { type: 'chat/toolCallStart', ...names, ...tool });
  host.emit(CHAT, {
    type: 'chat/toolCallReady',
    ...names,
    invocationMessage: 'Writing a.py',
    confirmationTitle: 'Write it?',
    ...ready
  });
  await stage.settle();
  await stage.settle();
  return stage;
}

const card = (): HTMLElement => screen.getByRole('group', { name: 'Write it?' });
const press = (name: RegExp): void =>
  void fireEvent.click(within(card()).getByRole('button', { name }));

describe('what is asked before a tool runs', () => {
  it('can be changed, and is sent as it was changed', async () => {
    const { settle, sent } = await asks({ toolInput: '{"path":"a.py"}', editable: true });
    expect(card().textContent).toContain('"path": "a.py"');
    press(/Change it/);
    const field = within(card()).getByRole('textbox', { name: 'What it is to be given' });
    fireEvent.change(field, { target: { value: '{"path": "b.py"' } });
    expect(within(card()).getByRole('alert').textContent).toContain('no valid JSON');
    press(/Allow once/);
    await settle();
    expect(sent('chat/toolCallConfirmed')).toEqual([]);
    fireEvent.change(field, { target: { value: '{"path": "b.py"}' } });
    press(/Allow once/);
    await settle();
    expect(sent('chat/toolCallConfirmed')).toMatchObject([
      { approved: true, editedToolInput: '{"path": "b.py"}' }
    ]);
  });

  it('is sent as it was when it was looked at and left', async () => {
    const { settle, sent } = await asks({ toolInput: '{"path":"a.py"}', editable: true });
    press(/Change it/);
    press(/Allow once/);
    await settle();
    expect(sent('chat/toolCallConfirmed')[0]).not.toHaveProperty('editedToolInput');
  });

  it('is not offered to be changed where the tool does not take that', async () => {
    await asks({ toolInput: '{"path":"a.py"}' });
    expect(within(card()).queryByRole('button', { name: /Change it/ })).toBeNull();
  });

  it('shows what it changes in files, line by line, and says what cannot be shown', async () => {
    const side = (uri: string) => ({ uri: 'file:///w/a.py', content: { uri } });
    const { settle } = await asks(
      {
        edits: {
          items: [
            { before: side('x:before'), after: side('x:after'), diff: { added: 1, removed: 1 } },
            { after: side('x:gone') }
          ]
        }
      },
      { 'x:before': 'a\nb\nc\n', 'x:after': 'a\nB\nc\n' }
    );
    const changes = within(card()).getByRole('group', { name: 'Changes' });
    const rows = [...changes.querySelectorAll('tr')].map(row => [
      row.className,
      row.lastElementChild?.textContent
    ]);
    expect(rows).toEqual([
      ['is-same', 'a'],
      ['is-removed', 'b'],
      ['is-added', 'B'],
      ['is-same', 'c']
    ]);
    expect(card().textContent).toContain('+1 −1');
    const other = [...card().querySelectorAll('details')][1]!;
    other.open = true;
    fireEvent(other, new Event('toggle'));
    await settle();
    await settle();
    expect(other.textContent).toContain('What changes cannot be shown: x:gone is not there.');
  });
});
