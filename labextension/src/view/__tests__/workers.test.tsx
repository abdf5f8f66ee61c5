import { fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type ChatState,
  type ResponsePart,
  ROOT,
  type SessionState,
  type ToolCallState
} from '../../ahp';
import type { ChatViewProps } from '../ChatView';
import {
  ABLE,
  browser,
  CHAT,
  chatState,
  leave,
  SESSION,
  sessionState,
  showChat,
  turn
} from './stage';

beforeEach(browser);
afterEach(leave);

const WORKER = 'ahp-chat:/worker';
const PARENT = 'ahp-chat:/parent';
const onOpen = vi.fn<NonNullable<ChatViewProps['onOpen']>>();
beforeEach(() => onOpen.mockClear());

const call: ToolCallState = {
  toolCallId: 'c',
  toolName: 'delegate',
  displayName: 'Delegate',
  status: 'completed',
  invocationMessage: 'Delegating',
  toolInput: '{"task":"look"}',
  confirmed: 'not-needed',
  success: true,
  pastTenseMessage: 'Delegated',
  content: [
    { type: 'subagent', resource: WORKER, title: 'Look for leaks', agentName: 'scout' },
    { type: 'text', text: 'found two' }
  ]
};
const part: ResponsePart = { kind: 'toolCall', toolCall: call };

/** A session whose chat has a worker of this status; null: the worker's chat is not there. */
function withWorker(status: number | null): SessionState {
  const state = sessionState(chatState());
  const modifiedAt = state.chats[0].modifiedAt;
  const worker = { resource: WORKER, title: 'Look for leaks', status: status ?? 0, modifiedAt };
  const origin = { kind: 'tool', chat: CHAT, toolCallId: 'c' } as const;
  return status === null
    ? state
    : { ...state, chats: [...state.chats, { ...worker, origin, interactivity: 'read-only' }] };
}

function show(
  chat: Partial<ChatState>,
  session: SessionState,
  props: Partial<ChatViewProps> = { onOpen }
): ReturnType<typeof showChat> {
  return showChat(chat, {
    props,
    set: world => {
      world.host.states.set(ROOT, { agents: [ABLE] });
      world.host.states.set(SESSION, session);
    }
  });
}

const row = (): HTMLElement => document.querySelector<HTMLElement>('.ahp-Worker')!;
const TURNS = [turn('t1', 'look', '', { responseParts: [part] })];

describe('a call that a worker runs', () => {
  it.each([
    [8, 'working', 'Working'],
    [24, 'waits for you', 'Needs you'],
    [2, 'failed', 'Failed'],
    [1, 'ended', 'Worker'],
    [33, 'ended', 'Worker']
  ])('shows a worker of status %i as "%s"', async (status, word, label) => {
    await show({ turns: TURNS }, withWorker(status));
    expect(within(row()).getByText(word)).toBeTruthy();
    expect(within(row()).getByLabelText(label)).toBeTruthy();
    expect(row().textContent).toContain('Worker, scout');
  });

  it('follows it, and opens its chat', async () => {
    const { world, settle } = await show({ turns: TURNS }, withWorker(8));
    const changes = { status: 24, activity: 'Reading a.csv' };
    world.host.emit(SESSION, { type: 'session/chatUpdated', chat: WORKER, changes });
    await settle();
    expect(within(row()).getByText('waits for you')).toBeTruthy();
    expect(row().textContent).toContain('Worker, scout: Reading a.csv');
    fireEvent.click(within(row()).getByRole('link', { name: 'Look for leaks' }));
    expect(onOpen).toHaveBeenCalledWith({ chat: WORKER, session: SESSION });
  });

  it('keeps what else it shows in its fold', async () => {
    await show({ turns: TURNS }, withWorker(1));
    expect(screen.queryByText('found two')).toBeNull();
    fireEvent.click(screen.getByText('Delegate').closest('summary')!);
    const fold = screen.getByText('Delegate').closest('details')!;
    fold.open = true;
    fireEvent(fold, new Event('toggle'));
    expect(screen.getByText('found two')).toBeTruthy();
    expect(document.querySelectorAll('.ahp-Worker')).toHaveLength(1);
  });

  it.each([
    ['is not there any more', { onOpen }, 'not here any more', null],
    ['cannot be opened from here', {}, 'ended', 1]
  ] as const)('has no link to a chat that %s', async (_, props, word, status) => {
    await show({ turns: TURNS }, withWorker(status), props);
    expect(within(row()).queryByRole('link')).toBeNull();
    expect(within(row()).getByText('Look for leaks')).toBeTruthy();
    expect(within(row()).getByText(word)).toBeTruthy();
  });
});

describe('the chat of a worker', () => {
  const origin = { kind: 'tool', chat: PARENT, toolCallId: 'c' } as const;
  const prompt = { text: 'Look for leaks', origin: { kind: 'agent' } } as const;
  const startedAt = '2026-12-01T10:00:00.000Z';
  const asking: ResponsePart = {
    kind: 'toolCall',
    toolCall: {
      toolCallId: 'x',
      toolName: 'shell',
      displayName: 'Shell',
      status: 'pending-confirmation',
      invocationMessage: 'Run ls',
      confirmationTitle: 'Run it?',
      toolInput: 'ls'
    }
  };
  const state: Partial<ChatState> = {
    origin,
    interactivity: 'read-only',
    status: 24,
    activeTurn: { id: 'w', startedAt, message: prompt, responseParts: [asking] }
  };

  function session(): SessionState {
    const made = sessionState(chatState());
    const { modifiedAt } = made.chats[0];
    const parent = { resource: PARENT, title: 'The asker', status: 8, modifiedAt };
    return { ...made, chats: [parent, ...made.chats], defaultChat: PARENT };
  }

  it('says whose it is and who spoke, and has no box', async () => {
    await show(state, session());
    expect(screen.queryByRole('textbox', { name: 'Message' })).toBeNull();
    expect(screen.getByText('You can read this chat.').parentElement?.textContent).toContain(
      'It is a worker’s. Write to the chat that it works for.'
    );
    expect(screen.getByRole('heading', { name: 'Said by the agent' })).toBeTruthy();
    fireEvent.click(screen.getByRole('link', { name: 'The asker' }));
    expect(onOpen).toHaveBeenCalledWith({ chat: PARENT, session: SESSION });
  });

  it('is answered there (W4)', async () => {
    const { settle, sent } = await show(state, session());
    fireEvent.click(within(screen.getByRole('log')).getByRole('button', { name: /Allow/ }));
    await settle();
    expect(sent('chat/toolCallConfirmed')).toMatchObject([
      { turnId: 'w', toolCallId: 'x', approved: true }
    ]);
  });

  it('is stopped there, or says why it cannot be (W4)', async () => {
    const { world, settle, sent } = await show(state, session());
    world.host.refuses = (_, { type }) =>
      type === 'chat/turnCancelled' ? 'This worker cannot be stopped by itself.' : undefined;
    fireEvent.click(screen.getByRole('button', { name: 'Stop' }));
    await settle();
    expect(sent('chat/turnCancelled')).toMatchObject([{ turnId: 'w' }]);
    expect(screen.getByRole('alert').textContent).toContain(
      'This worker cannot be stopped by itself'
    );
  });

  it('has nothing to stop at rest', async () => {
    const done = turn('w', 'Look for leaks', 'none', { message: prompt });
    await show({ ...state, activeTurn: undefined, turns: [done], status: 1 }, session());
    expect(screen.queryByRole('button', { name: 'Stop' })).toBeNull();
    expect(screen.queryByRole('button', { name: 'Edit and resend' })).toBeNull();
  });
});

describe('what nobody asked for', () => {
  it('is told from what a person said', async () => {
    const origin = { kind: 'systemNotification' } as const;
    const late = turn('t2', 'A scout is back', 'so it is', {
      message: { text: 'A scout is back', origin }
    });
    await show({ turns: [turn('t1', 'look', 'yes'), late] }, sessionState(chatState()));
    expect(screen.getByRole('heading', { name: 'Not said by a person' })).toBeTruthy();
    expect(screen.getByText('Not said by a person', { selector: 'bdi' })).toBeTruthy();
  });

  it('is counted while it runs behind the turns', async () => {
    const work = {
      id: 'a',
      kind: 'subagent',
      chat: WORKER,
      label: 'Look',
      startedAt: 'x'
    } as const;
    const { world, settle } = await show({ turns: TURNS, backgroundWork: [work] }, withWorker(8));
    expect(screen.getByText('Assistant, 1 runs in the background')).toBeTruthy();
    world.host.emit(CHAT, { type: 'chat/backgroundWorkRemoved', id: 'a' });
    await settle();
    expect(screen.queryByText(/in the background/)).toBeNull();
  });
});
