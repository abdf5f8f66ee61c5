import { act, fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ChatState, type Message, type PendingMessage, ROOT } from '../../ahp';
import { movedTo } from '../drag';
import { ABLE, ASSISTANT, browser, CHAT, greets, leave, showChat, turn } from './stage';

beforeEach(browser);
afterEach(leave);

const box = (): HTMLTextAreaElement => screen.getByRole('textbox', { name: 'Message' });
const rows = (): HTMLElement[] =>
  within(screen.getByRole('list', { name: 'Waiting messages' })).getAllByRole('listitem');
const button = (name: string | RegExp): HTMLElement => screen.getByRole('button', { name });

const by = (who: string): Message['_meta'] => ({
  'jupyter-ahp.sender': `user:${who}`,
  'jupyter-ahp.name': who
});
const message = (text: string, who = 'ana'): Message => ({
  text,
  origin: { kind: 'user' },
  _meta: by(who)
});
const waits = (id: string, text: string, who?: string): PendingMessage => ({
  id,
  message: message(text, who)
});
const HOLD = { 'jupyter-ahp.hold': true };

const running = (more: Partial<ChatState> = {}): Partial<ChatState> => ({
  activeTurn: {
    id: 'now',
    startedAt: new Date().toISOString(),
    message: message('work'),
    responseParts: []
  },
  ...more
});

type Options = Parameters<typeof showChat>[1];

/** As ana, with an agent that takes steering or one that does not. */
function show(state: Partial<ChatState>, steering = true): ReturnType<typeof showChat> {
  const set: NonNullable<Options>['set'] = world => {
    world.host.states.set(ROOT, { agents: [steering ? ABLE : ASSISTANT] });
    greets(world, { 'jupyter-ahp.principal': 'user:ana' });
  };
  return showChat(state, { set });
}

describe('the composer while a turn runs', () => {
  it('has only Stop as long as nothing is typed', async () => {
    await show(running());
    expect(button('Stop')).toBeTruthy();
    expect(screen.queryByRole('button', { name: 'Queue' })).toBeNull();
    expect(screen.queryByRole('button', { name: 'Send' })).toBeNull();
  });

  it('queues with Enter and steers with Ctrl Enter, both named, with Stop beside them', async () => {
    const { settle, sent } = await show(running());
    fireEvent.change(box(), { target: { value: 'Then plot it' } });
    expect(button('Queue')).toBeTruthy();
    expect(button('Steer')).toBeTruthy();
    expect(button('Stop the turn')).toBeTruthy();
    const hint = document.getElementById(box().getAttribute('aria-describedby')!);
    expect(hint?.textContent).toBe(
      'Queue sends it when this turn ends. Steer hands it over at the next step.'
    );
    fireEvent.keyDown(box(), { key: 'Enter' });
    fireEvent.change(box(), { target: { value: 'The date column' } });
    fireEvent.keyDown(box(), { key: 'Enter', ctrlKey: true });
    await settle();
    expect(sent('chat/turnStarted')).toEqual([]);
    expect(sent('chat/pendingMessageSet')).toEqual([
      expect.objectContaining({
        kind: 'queued',
        message: { text: 'Then plot it', origin: { kind: 'user' } }
      }),
      expect.objectContaining({
        kind: 'steering',
        message: { text: 'The date column', origin: { kind: 'user' } }
      })
    ]);
    expect(box().value).toBe('');
    expect(screen.getByText('2 waiting')).toBeTruthy();
    // the one slot is taken: what is typed now can only be queued
    fireEvent.change(box(), { target: { value: 'more' } });
    expect(screen.queryByRole('button', { name: 'Steer' })).toBeNull();
  });

  it('does not offer to steer an agent that takes no steering, by no key either', async () => {
    const { settle, sent } = await show(running(), false);
    fireEvent.change(box(), { target: { value: 'The date column' } });
    expect(screen.queryByRole('button', { name: 'Steer' })).toBeNull();
    expect(screen.getByText('Queue sends it when this turn ends.')).toBeTruthy();
    fireEvent.keyDown(box(), { key: 'Enter', ctrlKey: true });
    await settle();
    expect(sent('chat/pendingMessageSet')).toEqual([]);
    expect(box().value).toBe('The date column');
  });

  it('queues a command, and does not hand it to the model', async () => {
    await show(running());
    fireEvent.change(box(), { target: { value: '!ls' } });
    expect(button('Queue')).toBeTruthy();
    expect(screen.queryByRole('button', { name: 'Steer' })).toBeNull();
  });

  it('sends with Ctrl Enter where nothing runs', async () => {
    const { settle, sent } = await show({});
    fireEvent.change(box(), { target: { value: 'Hello' } });
    fireEvent.keyDown(box(), { key: 'Enter', ctrlKey: true });
    await settle();
    expect(sent('chat/turnStarted')).toHaveLength(1);
  });
});

describe('what waits', () => {
  const three = running({
    steeringMessage: waits('s', 'Use the date column'),
    queuedMessages: [waits('a', 'First'), waits('b', '!git status', 'mia')]
  });

  it('is shown in the order in which it goes, with when, and whose it is', async () => {
    await show(three);
    expect(screen.getByText('3 waiting')).toBeTruthy();
    expect(rows().map(row => row.textContent)).toEqual([
      'Use the date columnSteering: goes in at the next step',
      'FirstGoes when this turn ends',
      expect.stringContaining('mia: !git status')
    ]);
  });

  it('is moved by keys and taken away, and nothing starts for it', async () => {
    const { settle, sent } = await show(three);
    const handle = within(rows()[2]).getByRole('button', { name: 'Move, position 2 of 2' });
    handle.focus();
    fireEvent.keyDown(handle, { key: 'ArrowUp', altKey: true });
    await settle();
    expect(sent('chat/queuedMessagesReordered')).toEqual([
      { type: 'chat/queuedMessagesReordered', order: ['b', 'a'], _meta: HOLD }
    ]);
    expect(rows().map(row => row.dataset['waiting'])).toEqual(['s', 'b', 'a']);
    expect(document.activeElement).toBe(handle);
    fireEvent.keyDown(handle, { key: 'Delete' });
    fireEvent.click(button('Take back'));
    await settle();
    expect(sent('chat/pendingMessageRemoved')).toEqual([
      { type: 'chat/pendingMessageRemoved', kind: 'queued', id: 'b', _meta: HOLD },
      { type: 'chat/pendingMessageRemoved', kind: 'steering', id: 's', _meta: HOLD }
    ]);
    expect(rows().map(row => row.dataset['waiting'])).toEqual(['a']);
  });

  it('is dragged to another place, and Escape leaves it where it was', async () => {
    const { settle, sent } = await show(
      running({ queuedMessages: [waits('a', 'A'), waits('b', 'B'), waits('c', 'C')] })
    );
    // each row is 20 high, in the order of the page
    const place = function (this: Element): DOMRect {
      const top = [...this.parentElement!.children].indexOf(this) * 20;
      return { top, bottom: top + 20, height: 20, left: 0, right: 0, width: 0 } as DOMRect;
    };
    rows().forEach(row => (row.getBoundingClientRect = place));
    const drag = async (to: number): Promise<void> => {
      fireEvent(
        within(rows()[0]).getByRole('button', { name: /Move/ }),
        new MouseEvent('pointerdown', { bubbles: true, button: 0 })
      );
      await act(
        async () => void document.dispatchEvent(new MouseEvent('pointermove', { clientY: to }))
      );
    };
    await drag(55);
    expect(rows().map(row => row.dataset['waiting'])).toEqual(['b', 'c', 'a']);
    await act(async () => void fireEvent.keyDown(document, { key: 'Escape' }));
    expect(rows().map(row => row.dataset['waiting'])).toEqual(['a', 'b', 'c']);
    await drag(35);
    await act(async () => void document.dispatchEvent(new MouseEvent('pointerup')));
    await settle();
    expect(sent('chat/queuedMessagesReordered').map(action => action['order'])).toEqual([
      ['b', 'a', 'c']
    ]);
  });

  it('is edited in its place, by ↑ in the empty box, too', async () => {
    const { settle, sent } = await show(three);
    fireEvent.keyDown(box(), { key: 'ArrowUp' });
    const field = screen.getByRole('textbox', { name: 'Waiting message' });
    expect(document.activeElement).toBe(field);
    // the last one of one's own, not the other person's
    expect((field as HTMLTextAreaElement).value).toBe('First');
    fireEvent.change(field, { target: { value: 'First of all' } });
    fireEvent.keyDown(field, { key: 'Enter' });
    await settle();
    expect(sent('chat/pendingMessageSet')).toEqual([
      {
        type: 'chat/pendingMessageSet',
        kind: 'queued',
        id: 'a',
        message: message('First of all'),
        _meta: HOLD
      }
    ]);
    expect(document.activeElement).toBe(box());
    fireEvent.click(within(rows()[1]).getByRole('button', { name: 'Edit' }));
    fireEvent.keyDown(screen.getByRole('textbox', { name: 'Waiting message' }), { key: 'Escape' });
    await settle();
    expect(sent('chat/pendingMessageSet')).toHaveLength(1);
  });

  it('gives what was changed to the box when the message went before it was saved', async () => {
    const { world, settle, sent } = await show(three);
    fireEvent.keyDown(box(), { key: 'ArrowUp' });
    fireEvent.change(screen.getByRole('textbox', { name: 'Waiting message' }), {
      target: { value: 'First, by week' }
    });
    world.host.emit(CHAT, { type: 'chat/turnComplete', turnId: 'now', duration: 5 });
    world.host.emit(CHAT, {
      type: 'chat/turnStarted',
      turnId: 'next',
      startedAt: new Date().toISOString(),
      message: message('First'),
      queuedMessageId: 'a'
    });
    await settle();
    expect(screen.queryByRole('textbox', { name: 'Waiting message' })).toBeNull();
    expect(box().value).toBe('First, by week');
    expect(screen.getByRole('alert').textContent).toContain('It does not wait any more');
    expect(sent('chat/pendingMessageSet')).toEqual([]);
  });

  it('steers at once where the agent takes steering, under the same id', async () => {
    const { settle, sent } = await show(running({ queuedMessages: [waits('a', 'First')] }));
    fireEvent.click(button('Send now: steer with it'));
    await settle();
    expect(sent('chat/pendingMessageSet')).toEqual([
      { type: 'chat/pendingMessageSet', kind: 'steering', id: 'a', message: message('First') }
    ]);
    expect(sent('chat/pendingMessageRemoved')).toEqual([
      { type: 'chat/pendingMessageRemoved', kind: 'queued', id: 'a', _meta: HOLD }
    ]);
    expect(rows()[0].textContent).toContain('Steering: goes in at the next step');
  });

  it('goes back to its place when the host will not have it as steering', async () => {
    const { world, settle } = await show(
      running({ queuedMessages: [waits('a', 'First'), waits('b', 'Second')] })
    );
    world.host.refuses = (_, action) =>
      action.type === 'chat/pendingMessageSet' && action.kind === 'steering' ? 'no' : undefined;
    fireEvent.click(within(rows()[0]).getByRole('button', { name: 'Send now: steer with it' }));
    await settle();
    await settle();
    const { queuedMessages, steeringMessage } = world.host.states.get(CHAT) as ChatState;
    expect(queuedMessages?.map(({ id }) => id)).toEqual(['a', 'b']);
    expect(steeringMessage).toBeUndefined();
    expect(screen.getByRole('alert').textContent).toContain('Not changed: no.');
  });

  it('stops the turn for a message where the agent takes no steering', async () => {
    const { settle, sent } = await show(running({ queuedMessages: [waits('a', 'First')] }), false);
    fireEvent.click(button('Stop and send'));
    await settle();
    expect(sent('chat/turnCancelled').map(action => action['turnId'])).toEqual(['now']);
    expect(sent('chat/turnStarted')).toEqual([
      expect.objectContaining({
        queuedMessageId: 'a',
        message: expect.objectContaining({ text: 'First' })
      })
    ]);
    expect(screen.queryByRole('list', { name: 'Waiting messages' })).toBeNull();
  });

  it('is held after a stop and after a failure, says why, and goes when it is told to', async () => {
    const { world, settle, sent } = await show(running({ queuedMessages: [waits('a', 'First')] }));
    fireEvent.click(button('Stop'));
    await settle();
    expect(rows()[0].textContent).toContain('Held, because you stopped the turn');
    fireEvent.click(button('Send now'));
    await settle();
    expect(sent('chat/turnStarted')).toEqual([
      expect.objectContaining({
        queuedMessageId: 'a',
        message: {
          text: 'First',
          origin: { kind: 'user' },
          _meta: { ...by('ana'), 'jupyter-ahp.pendingId': 'a' }
        }
      })
    ]);
    world.host.emit(CHAT, {
      type: 'chat/pendingMessageSet',
      kind: 'queued',
      id: 'b',
      message: message('Second')
    });
    const { id } = (world.host.states.get(CHAT) as ChatState).activeTurn!;
    const part = { kind: 'error', error: { errorType: 'x', message: 'It broke.' } } as const;
    world.host.emit(CHAT, { type: 'chat/error', turnId: id, duration: 1, part });
    await settle();
    expect(rows()[0].textContent).toContain('Held, because the last turn failed');
  });

  it('does not say that the reader stopped what another one did', async () => {
    await show({
      turns: [turn('t', 'x', '', { state: 'cancelled' })],
      queuedMessages: [waits('a', 'First')]
    });
    expect(rows()[0].textContent).toContain('Held, because the turn was stopped');
  });
});

describe('steering that the model did not read', () => {
  const stopped = async (who: string): Promise<Awaited<ReturnType<typeof showChat>>> => {
    const stage = await show(running({ steeringMessage: waits('s', 'The date column', who) }));
    fireEvent.change(box(), { target: { value: 'and then' } });
    stage.world.host.emit(CHAT, { type: 'chat/turnCancelled', turnId: 'now', duration: 5 });
    await stage.settle();
    expect(box().value).toBe('and then');
    stage.world.host.emit(CHAT, {
      type: 'chat/pendingMessageRemoved',
      kind: 'steering',
      id: 's'
    });
    await stage.settle();
    return stage;
  };

  it('goes back to the box of the person who wrote it, above what is typed', async () => {
    await stopped('ana');
    expect(box().value).toBe('The date column\nand then');
  });

  it('does not go to anybody else', async () => {
    await stopped('mia');
    expect(box().value).toBe('and then');
  });

  it('does not come back when it was read', async () => {
    const { world, settle } = await show(
      running({ steeringMessage: waits('s', 'The date column') })
    );
    const said = {
      ...message('The date column'),
      _meta: { ...by('ana'), 'jupyter-ahp.pendingId': 's' }
    };
    world.host.emit(CHAT, {
      type: 'chat/responsePart',
      turnId: 'now',
      part: {
        kind: 'systemNotification',
        content: said.text,
        _meta: { 'jupyter-ahp.steering': said }
      }
    });
    world.host.emit(CHAT, { type: 'chat/pendingMessageRemoved', kind: 'steering', id: 's' });
    world.host.emit(CHAT, { type: 'chat/turnCancelled', turnId: 'now', duration: 5 });
    await settle();
    expect(box().value).toBe('');
    const block = screen.getByRole('heading', { name: 'You said while it worked' }).parentElement!;
    expect(block.textContent).toContain('You while it worked, taken here');
    expect(block.textContent).toContain('The date column');
  });
});

describe('an order', () => {
  it('takes an item to a place, within its ends', () => {
    expect(movedTo(['a', 'b', 'c'], 'a', 1)).toEqual(['b', 'a', 'c']);
    expect(movedTo(['a', 'b', 'c'], 'c', -1)).toEqual(['c', 'a', 'b']);
    expect(movedTo(['a', 'b', 'c'], 'a', 9)).toEqual(['b', 'c', 'a']);
  });
});
