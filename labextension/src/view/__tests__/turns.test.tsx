import { act, fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ChatState, ROOT, type Turn } from '../../ahp';
import type { World } from '../../ahp/__tests__/world';
import type { ChatViewProps } from '../ChatView';
import {
  ABLE,
  ASSISTANT,
  browser,
  CHAT,
  chatState,
  greets,
  leave,
  SESSION,
  sessionState,
  showChat,
  turn
} from './stage';

beforeEach(browser);
afterEach(leave);

const box = (): HTMLTextAreaElement => screen.getByRole('textbox', { name: 'Message' });
const log = (): HTMLElement => screen.getByRole('log', { name: 'Transcript' });
const article = (name: string): HTMLElement => within(log()).getByRole('article', { name });
const TURNS: readonly Turn[] = [
  turn('t1', 'one', 'first'),
  turn('t2', 'two', 'second'),
  turn('t3', 'three', 'third')
];
const onOpen = vi.fn<NonNullable<ChatViewProps['onOpen']>>();
beforeEach(() => onOpen.mockClear());

function show(
  state: Partial<ChatState> = { turns: TURNS },
  set: (world: World) => void = () => undefined
): ReturnType<typeof showChat> {
  return showChat(state, {
    props: { onOpen },
    set: world => {
      world.host.states.set(ROOT, { agents: [ABLE] });
      set(world);
    }
  });
}

/** Opens the menu of a turn and chooses in it. */
function choose(turnNumber: number, item: string): void {
  fireEvent.click(screen.getByRole('button', { name: `More for turn ${turnNumber}` }));
  fireEvent.click(screen.getByRole('menuitem', { name: item }));
}

describe('edit and resend', () => {
  it('puts what was said into the box, and says what sending it drops', async () => {
    const { settle, sent } = await show();
    fireEvent.change(box(), { target: { value: 'half a thought' } });
    article('Turn 2').focus();
    fireEvent.keyDown(article('Turn 2'), { key: 'e' });
    await settle();
    expect(box().value).toBe('two');
    expect(document.activeElement).toBe(box());
    expect(screen.getByText('You edit what was said.').parentElement?.textContent).toContain(
      'Sending it drops that turn and the one after it. Files are not changed back.'
    );
    fireEvent.change(box(), { target: { value: 'two, again' } });
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(sent('chat/truncated')).toEqual([{ type: 'chat/truncated', turnId: 't1' }]);
    expect(sent('chat/turnStarted').map(action => action['message'])).toEqual([
      { text: 'two, again', origin: { kind: 'user' } }
    ]);
    expect(within(log()).getAllByRole('article')).toHaveLength(2);
    expect(screen.queryByText('You edit what was said.')).toBeNull();
    // what was being written before is there again
    expect(box().value).toBe('half a thought');
  });

  it('is left with Esc, with what was in the box before, and sends nothing', async () => {
    const { settle, sent } = await show();
    fireEvent.change(box(), { target: { value: 'half a thought' } });
    const edit = within(article('Turn 1')).getAllByRole('button', { name: 'Edit and resend' });
    fireEvent.click(edit[0]);
    await settle();
    expect(box().value).toBe('one');
    fireEvent.keyDown(box(), { key: 'Escape' });
    await settle();
    expect(box().value).toBe('half a thought');
    expect(screen.queryByText('You edit what was said.')).toBeNull();
    expect(sent('chat/truncated')).toEqual([]);
  });

  it('of the first turn drops all of them', async () => {
    const { settle, sent } = await show();
    fireEvent.click(
      within(article('Turn 1')).getAllByRole('button', { name: 'Edit and resend' })[0]
    );
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(sent('chat/truncated')).toEqual([{ type: 'chat/truncated' }]);
  });

  it('loads the turn before it, when that was not loaded yet: it is what is kept', async () => {
    const { world, settle, sent } = await show({ turns: TURNS, turnsNextCursor: 'older' }, made => {
      made.host.answers['fetchTurns'] = () => {
        made.host.emit(CHAT, { type: 'chat/turnsLoaded', turns: [turn('t0', 'zero', 'x')] });
        return { result: {} };
      };
    });
    const said = within(log()).getByText('one').closest<HTMLElement>('article')!;
    fireEvent.keyDown(said, { key: 'e' });
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(world.socket.requests('fetchTurns')).toHaveLength(1);
    expect(sent('chat/truncated')).toEqual([{ type: 'chat/truncated', turnId: 't0' }]);
    expect(sent('chat/turnStarted')).toHaveLength(1);
  });

  it('keeps the text when the host will not, and begins no turn', async () => {
    const { settle, sent } = await show({ turns: TURNS }, world => {
      world.host.refuses = (_, { type }) => (type === 'chat/truncated' ? 'not now' : undefined);
    });
    fireEvent.keyDown(box(), { key: 'ArrowUp' });
    await settle();
    expect(box().value).toBe('three');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(screen.getByRole('alert').textContent).toContain(
      'Not sent: not now. Your text is kept.'
    );
    expect(box().value).toBe('three');
    expect(sent('chat/turnStarted')).toEqual([]);
    expect(within(log()).getAllByRole('article')).toHaveLength(3);
  });
});

describe('a turn', () => {
  it('can be forked, and the fork is opened', async () => {
    const { world, settle } = await show();
    article('Turn 2').focus();
    fireEvent.keyDown(article('Turn 2'), { key: 'f' });
    await settle();
    const [{ params }] = world.socket.requests('createChat');
    expect(params).toEqual({
      channel: SESSION,
      chat: expect.stringMatching(/^ahp-chat:\//),
      source: { kind: 'fork', chat: CHAT, turnId: 't2' }
    });
    expect(onOpen).toHaveBeenCalledWith({ chat: params.chat, session: SESSION });
  });

  it('has a side chat, about all of it or about what is selected in the answer', async () => {
    const { world, settle } = await show();
    choose(2, 'Side chat');
    await settle();
    const words = within(article('Turn 1')).getByText('first');
    await act(async () => {
      document.getSelection()!.selectAllChildren(words);
      document.dispatchEvent(new Event('selectionchange'));
      await new Promise(resolve => setTimeout(resolve, 30));
    });
    fireEvent.click(within(log()).getByRole('button', { name: 'Side chat' }));
    await settle();
    expect(world.socket.requests('createChat').map(({ params }) => params.source)).toEqual([
      { kind: 'sideChat', chat: CHAT, turnId: 't2' },
      {
        kind: 'sideChat',
        chat: CHAT,
        turnId: 't1',
        selection: { text: 'first', responsePartId: 't1-1' }
      }
    ]);
    expect(onOpen).toHaveBeenCalledTimes(2);
  });

  it('is tried again with R: only the last one, in a turn of its own', async () => {
    const { settle, sent } = await show();
    fireEvent.keyDown(article('Turn 2'), { key: 'r' });
    fireEvent.keyDown(article('Turn 3'), { key: 'r' });
    await settle();
    expect(sent('chat/truncated')).toEqual([]);
    expect(sent('chat/turnStarted').map(action => action['message'])).toEqual([
      { text: 'three', origin: { kind: 'user' } }
    ]);
  });

  it('says what is known of it, and of what was not reported nothing', async () => {
    await show({
      turns: [turn('t1', 'one', 'x', { usage: { inputTokens: 12410, model: 'gpt-5-mini' } })]
    });
    choose(1, 'Details');
    const facts = article('Turn 1').querySelector('dl')!;
    expect(facts.textContent).toContain('gpt-5-mini');
    expect(facts.textContent).toContain('12,410');
    expect(facts.textContent).not.toContain('Tokens out');
    expect(facts.textContent).not.toContain('Cost');
  });

  it('says what a turn cost where its agent does', async () => {
    const cost = { amount: 0.0123, currency: 'USD' };
    await show({
      turns: [turn('t1', 'one', 'x', { usage: { _meta: { 'jupyter-ahp.cost': cost } } })]
    });
    expect(article('Turn 1').querySelector('footer')!.textContent).toContain('$0.0123');
    choose(1, 'Details');
    expect(article('Turn 1').querySelector('dl')!.textContent).toContain('Cost$0.0123');
  });

  it('offers only what the agent can do, where there is a place for it', async () => {
    const first = await showChat(
      { turns: TURNS },
      { props: { onOpen }, set: world => void world.host.states.set(ROOT, { agents: [ASSISTANT] }) }
    );
    expect(screen.queryByRole('button', { name: 'Fork from here' })).toBeNull();
    first.unmount();
    await showChat(
      { turns: TURNS },
      { set: world => void world.host.states.set(ROOT, { agents: [ABLE] }) }
    );
    expect(screen.queryByRole('button', { name: 'Fork from here' })).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'More for turn 3' }));
    // nothing follows the last turn, so there is no going back to it
    expect(screen.getAllByRole('menuitem').map(item => item.textContent)).toEqual(['Details']);
  });

  it('does not cut off one that runs', async () => {
    const { world, settle, sent } = await show();
    world.host.emit(CHAT, {
      type: 'chat/turnStarted',
      turnId: 't4',
      startedAt: new Date().toISOString(),
      message: { text: 'four', origin: { kind: 'user' } }
    });
    await settle();
    expect(log().hasAttribute('data-busy')).toBe(true);
    fireEvent.keyDown(article('Turn 2'), { key: 'e' });
    await settle();
    expect(box().value).toBe('');
    expect(screen.getByRole('alert').textContent).toContain('A turn runs.');
    fireEvent.click(screen.getByRole('button', { name: 'More for turn 2' }));
    expect(screen.queryByRole('menuitem', { name: 'Rewind to here' })).toBeNull();
    expect(sent('chat/truncated')).toEqual([]);
  });
});

describe('a rewind', () => {
  it('says what it dropped, and is undone as long as the host offers it', async () => {
    const { world, settle, sent } = await show();
    choose(1, 'Rewind to here');
    await settle();
    expect(sent('chat/truncated')).toEqual([{ type: 'chat/truncated', turnId: 't1' }]);
    // the host's own word says that it can be undone
    world.host.emit(CHAT, {
      type: 'chat/truncated',
      turnId: 't1',
      _meta: { 'jupyter-ahp.undo': { turns: 2 } }
    });
    await settle();
    const notice = within(log()).getByRole('note');
    expect(notice.textContent).toContain('2 turns rewound. Files were not changed back.');
    world.host.answers['x-jupyter-ahp/undoRewind'] = params => {
      expect(params['channel']).toBe(CHAT);
      for (const { id, message, duration = 0 } of TURNS.slice(1)) {
        world.host.emit(CHAT, { type: 'chat/turnStarted', turnId: id, startedAt: '', message });
        world.host.emit(CHAT, { type: 'chat/turnComplete', turnId: id, duration });
      }
      return { result: { turns: 2 } };
    };
    fireEvent.click(within(notice).getByRole('button', { name: 'Undo' }));
    await settle();
    expect(within(log()).getAllByRole('article')).toHaveLength(3);
    expect(within(log()).queryByRole('note')).toBeNull();
  });

  it('says why it could not be undone', async () => {
    const { settle } = await show(
      { turns: TURNS, _meta: { 'jupyter-ahp.undo': { turns: 1 } } },
      world => {
        world.host.answers['x-jupyter-ahp/undoRewind'] = () => ({
          error: { code: -32602, message: 'There is nothing to bring back: a turn has begun since' }
        });
      }
    );
    fireEvent.click(screen.getByRole('button', { name: 'Undo' }));
    await settle();
    expect(screen.getByRole('alert').textContent).toContain(
      'Not undone: There is nothing to bring back: a turn has begun since.'
    );
  });
});

describe('where a chat came from', () => {
  const source = (world: World): void => {
    const { resource, title, status, modifiedAt } = chatState();
    world.host.states.set(
      SESSION,
      sessionState(chatState(), {
        chats: [
          { resource, title, status, modifiedAt },
          { resource: 'ahp-chat:/source', title: 'Why does it drop?', status: 33, modifiedAt }
        ]
      })
    );
  };

  it('stands at its top, with the way there', async () => {
    const origin = { kind: 'fork', chat: 'ahp-chat:/source', turnId: 't' } as const;
    await show({ turns: TURNS, origin }, source);
    const notice = within(log()).getByRole('note');
    expect(notice.textContent).toBe('Forked from Why does it drop?');
    expect(notice.compareDocumentPosition(article('Turn 1'))).toBe(
      Node.DOCUMENT_POSITION_FOLLOWING
    );
    fireEvent.click(within(notice).getByRole('link', { name: 'Why does it drop?' }));
    expect(onOpen).toHaveBeenCalledWith({ chat: 'ahp-chat:/source', session: SESSION });
  });

  it('says what a side chat is about', async () => {
    const selection = { text: 'the honest number' };
    await show(
      { origin: { kind: 'sideChat', chat: 'ahp-chat:/source', turnId: 't', selection } },
      source
    );
    expect(within(log()).getByRole('note').textContent).toBe(
      'Side chat of Why does it drop?, about the honest number'
    );
  });
});

describe('a reader who may not write', () => {
  it('is told so in the composer’s place, and is offered nothing that takes more', async () => {
    const message = { text: 'Later', origin: { kind: 'user' } } as const;
    await show({ turns: TURNS, queuedMessages: [{ id: 'q', message }] }, world =>
      greets(world, {
        'jupyter-ahp.grants': ['session:read', 'chat:turns'],
        'jupyter-ahp.role': 'guest'
      })
    );
    expect(screen.queryByRole('textbox')).toBeNull();
    expect(screen.getByText('You can read this chat.').closest('.ahp-Strip')?.textContent).toBe(
      'You can read this chat. Your role here is guest. The owner can make you a member.'
    );
    // what waits is seen by all, and changed by those who may
    const [waiting] = within(screen.getByRole('list', { name: 'Waiting messages' })).getAllByRole(
      'listitem'
    );
    expect(waiting.textContent).toBe('Later');
    expect(within(waiting).queryByRole('button')).toBeNull();
    const names = within(article('Turn 3'))
      .getAllByRole('button')
      .map(button => button.getAttribute('aria-label'));
    expect(names).toEqual(['Copy answer', 'More for turn 3']);
  });
});

describe('Tab in the transcript', () => {
  it('goes through the buttons of the current turn alone, and out at its end', async () => {
    await show();
    article('Turn 2').focus();
    const stops = [...article('Turn 2').querySelectorAll('button')];
    for (const stop of stops) {
      fireEvent.keyDown(document.activeElement!, { key: 'Tab' });
      expect(document.activeElement).toBe(stop);
    }
    fireEvent.keyDown(document.activeElement!, { key: 'Tab' });
    // here the browser goes on, behind everything that is in the log
    const after = document.activeElement!;
    expect(log().contains(after)).toBe(true);
    expect(after.compareDocumentPosition(article('Turn 3'))).toBe(Node.DOCUMENT_POSITION_PRECEDING);
    stops[0].focus();
    fireEvent.keyDown(stops[0], { key: 'Tab', shiftKey: true });
    expect(document.activeElement).toBe(log());
  });
});

describe('what needs a person', () => {
  it('is counted once, with that of the chat’s workers, and reached by a button', async () => {
    const { world, settle } = await show({}, made => {
      const { resource, title, status, modifiedAt } = chatState();
      const worker = { kind: 'tool', chat: CHAT, toolCallId: 'c' } as const;
      made.host.states.set(
        SESSION,
        sessionState(chatState(), {
          chats: [
            { resource, title, status, modifiedAt },
            { resource: 'ahp-chat:/w', title: '', status, modifiedAt, origin: worker },
            { resource: 'ahp-chat:/other', title: '', status, modifiedAt }
          ],
          inputNeeded: [
            { id: '1', kind: 'chatInput', chat: CHAT, request: { id: 'q', message: 'Which?' } },
            { id: '2', kind: 'chatInput', chat: 'ahp-chat:/w', request: { id: 'q' } },
            { id: '3', kind: 'chatInput', chat: 'ahp-chat:/other', request: { id: 'q' } }
          ]
        })
      );
    });
    expect(screen.getByText('2 need you').parentElement?.textContent).toBe(
      '2 need you: 2 questions to answer'
    );
    fireEvent.click(screen.getByRole('button', { name: 'Go to next' }));
    expect(onOpen).toHaveBeenCalledWith({ chat: 'ahp-chat:/w', session: SESSION });
    world.host.emit(CHAT, {
      type: 'chat/turnStarted',
      turnId: 't',
      startedAt: new Date().toISOString(),
      message: { text: 'x', origin: { kind: 'user' } }
    });
    world.host.emit(CHAT, {
      type: 'chat/inputRequested',
      request: { id: 'q', message: 'Which?', questions: [] }
    });
    await settle();
    fireEvent.click(screen.getByRole('button', { name: 'Go to next' }));
    expect(document.activeElement).toBe(screen.getByRole('group', { name: 'Which?' }));
  });
});
