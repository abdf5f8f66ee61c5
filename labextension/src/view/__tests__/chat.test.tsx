import { act, fireEvent, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ChatState, ROOT } from '../../ahp';
import { ASSISTANT, browser, CHAT, greets, leave, SESSION, showChat, turn } from './stage';

beforeEach(browser);
afterEach(leave);

const box = (): HTMLTextAreaElement => screen.getByRole('textbox', { name: 'Message' });
const log = (): HTMLElement => screen.getByRole('log', { name: 'Transcript' });

const started = (id: string, text = 'hi') =>
  ({
    type: 'chat/turnStarted',
    turnId: id,
    startedAt: new Date().toISOString(),
    message: { text, origin: { kind: 'user' } }
  }) as const;

describe('a chat', () => {
  it('shows its turns, silently, as articles with a heading for readers', async () => {
    await showChat({ turns: [turn('t1', 'What is in df?', 'Hourly weather.')] });
    expect(log().getAttribute('aria-live')).toBe('off');
    const article = within(log()).getByRole('article', { name: 'Turn 1' });
    expect(within(article).getByRole('heading', { level: 2 }).textContent).toBe('You said');
    expect(article.textContent).toContain('Hourly weather.');
    expect(article.textContent).toContain('Assistant');
    expect(article.textContent).toContain('8 s');
  });

  it('sends with Enter, once, and empties the box', async () => {
    const { settle, sent } = await showChat();
    expect(box().placeholder).toBe('Ask, or type / @ # or !');
    fireEvent.change(box(), { target: { value: 'Hello' } });
    fireEvent.keyDown(box(), { key: 'Enter' });
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(sent('chat/turnStarted').map(action => action['message'])).toEqual([
      { text: 'Hello', origin: { kind: 'user' } }
    ]);
    expect(box().value).toBe('');
    expect(box().placeholder).toBe('Ask, or add to what it is doing');
    expect(screen.getByRole('article', { name: 'Turn 1, running' }).textContent).toContain(
      'Thinking'
    );
  });

  it('says of an agent what there is to know, and what can be typed, until something was said', async () => {
    const note = 'A tiny model, often wrong.';
    const { world, settle, container } = await showChat(
      {},
      {
        set: world =>
          world.host.states.set(ROOT, {
            agents: [{ ...ASSISTANT, _meta: { 'jupyter-ahp.note': note } }]
          })
      }
    );
    const line = (): string | undefined =>
      container.querySelector('.ahp-Beginning')?.textContent ?? undefined;
    expect(line()).toBe(
      `${note} Type / for commands, @ or # for files and chats, ! to run in a terminal.`
    );
    world.host.emit(CHAT, started('t1'));
    await settle();
    expect(line()).toBeUndefined();
  });

  it('takes ! for a command only where the host said that it runs commands', async () => {
    const said = { turns: [turn('t1', '!ls', 'Files')] };
    const here = await showChat(said);
    expect(here.container.querySelector('.ahp-User.is-command')?.textContent).toContain('!ls');
    here.unmount();
    const { container } = await showChat(said, { set: world => greets(world, {}, false) });
    expect(screen.getByText('!ls').tagName).toBe('P');
    fireEvent.change(box(), { target: { value: '!ls' } });
    expect(container.querySelector('.is-command')).toBeNull();
    expect(box().placeholder).toBe('Ask, or type / @ or #');
  });

  it('makes a line with Shift Enter, and leaves keys to an input method that composes', async () => {
    const { settle, sent } = await showChat();
    fireEvent.change(box(), { target: { value: 'に' } });
    fireEvent.keyDown(box(), { key: 'Enter', shiftKey: true });
    fireEvent.keyDown(box(), { key: 'Enter', isComposing: true });
    fireEvent.keyDown(box(), { key: 'Enter', keyCode: 229 });
    await settle();
    expect(sent('chat/turnStarted')).toEqual([]);
  });

  it('says in words why it was not sent, and keeps the text', async () => {
    const { settle } = await showChat(
      {},
      {
        set: world =>
          (world.host.refuses = (_, action) =>
            action.type === 'chat/turnStarted' ? 'you may read this chat only' : undefined)
      }
    );
    fireEvent.change(box(), { target: { value: 'Hello' } });
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(screen.getByRole('alert').textContent).toContain(
      'Not sent: you may read this chat only. Your text is kept.'
    );
    expect(box().value).toBe('Hello');
    expect(log().querySelector('article')).toBeNull();
  });

  it('says at a second press of Stop how far that is, and takes it back when the turn has ended', async () => {
    const { world, settle, sent } = await showChat();
    world.host.emit(CHAT, started('t1'));
    await settle();
    world.host.silent = true;
    const press = (name: RegExp): void =>
      void fireEvent.click(screen.getByRole('button', { name }));
    press(/^Stop/);
    await act(() => new Promise(settled => setTimeout(settled, 450)));
    press(/^Stopping/);
    expect(screen.getByRole('alert').textContent).toMatch(
      /The server was asked to stop the turn 0\.\d s ago and has not answered\./
    );
    expect(sent('chat/turnCancelled')).toHaveLength(1);
    world.host.silent = false;
    world.host.emit(CHAT, { type: 'chat/turnCancelled', turnId: 't1', duration: 900 });
    await settle();
    expect(screen.queryByRole('alert')).toBeNull();
    expect(screen.queryByRole('button', { name: /^Stop/ })).toBeNull();
  });

  it('stops by the button, and by Esc Esc', async () => {
    const { world, settle, sent } = await showChat();
    world.host.emit(CHAT, started('t1'));
    await settle();
    fireEvent.click(screen.getByRole('button', { name: /Stop/ }));
    await settle();
    expect(sent('chat/turnCancelled')).toHaveLength(1);
    expect(Number(sent('chat/turnCancelled')[0]['duration'])).toBeGreaterThanOrEqual(0);
    expect(log().textContent).toContain('Stopped after');

    world.host.emit(CHAT, started('t2'));
    await settle();
    fireEvent.keyDown(box(), { key: 'Escape' });
    await settle();
    expect(sent('chat/turnCancelled')).toHaveLength(1);
    fireEvent.keyDown(box(), { key: 'Escape' });
    await settle();
    expect(sent('chat/turnCancelled').map(action => action['turnId'])).toEqual(['t1', 't2']);
  });

  it('renders only the tail of a growing answer, and nothing of ended turns', async () => {
    const rendered: string[] = [];
    const { world, settle } = await showChat(
      { turns: [turn('t0', 'old', 'An old answer.')] },
      { rendered }
    );
    world.host.emit(CHAT, started('t1'));
    world.host.emit(CHAT, {
      type: 'chat/responsePart',
      turnId: 't1',
      part: { kind: 'markdown', id: 'p', content: 'First.\n\n' }
    });
    await settle();
    rendered.length = 0;
    for (const content of ['Second', ' one', ' grows.']) {
      world.host.emit(CHAT, { type: 'chat/delta', turnId: 't1', partId: 'p', content });
      await settle();
    }
    expect(rendered).toEqual(['Second', 'Second one', 'Second one grows.']);
    rendered.length = 0;
    const article = screen.getByRole('article', { name: 'Turn 2, running' });
    world.host.emit(CHAT, { type: 'chat/turnComplete', turnId: 't1', duration: 10 });
    await settle();
    // the very element that streamed is the one that stays
    expect(screen.getByRole('article', { name: 'Turn 2' })).toBe(article);
    expect(rendered.filter(source => source.includes('First') || source.includes('old'))).toEqual(
      []
    );
  });

  it('offers to go on where a turn failed, and says the same again where it cannot', async () => {
    const failed = (resumable: boolean) =>
      turn('t1', 'again', '', {
        state: 'error',
        responseParts: [
          {
            kind: 'error',
            resumable,
            error: {
              errorType: 'busy',
              message: "The model's server is busy. Nothing was lost.",
              stack: '429'
            }
          }
        ]
      });
    const first = await showChat({ turns: [failed(true)] });
    expect(screen.getByRole('heading', { name: "The model's server is busy" })).toBeTruthy();
    expect(screen.queryByText('429')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Details' }));
    expect(screen.getByText('429')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Retry' }));
    await first.settle();
    expect(first.sent('chat/turnResume')).toEqual([{ type: 'chat/turnResume', turnId: 't1' }]);
    first.unmount();

    const second = await showChat({ turns: [failed(false)] });
    fireEvent.click(screen.getByRole('button', { name: 'Retry' }));
    await second.settle();
    expect(second.sent('chat/turnStarted').map(action => action['message'])).toEqual([
      { text: 'again', origin: { kind: 'user' } }
    ]);
  });

  it('loads earlier turns as the reader comes to the top, and keeps every turn that is there', async () => {
    const { world, settle } = await showChat(
      {
        turns: [turn('t50', 'fifty', 'x'), turn('t51', 'fifty-one', 'y')],
        turnsNextCursor: 'older'
      },
      { set: ({ host }) => (host.answers['fetchTurns'] = () => null) }
    );
    const first = within(log()).getByText('fifty').closest('article');
    expect(first?.getAttribute('aria-label')).toBe('Turn 1');
    await act(async () => new Promise(resolve => setTimeout(resolve, 10)));
    await settle();
    expect(world.socket.requests('fetchTurns').map(message => message['params'].cursor)).toEqual([
      'older'
    ]);
    expect(within(log()).getByText('Loading earlier turns')).toBeTruthy();
    const older = Array.from({ length: 40 }, (_, index) =>
      turn(`t${index + 10}`, `q${index}`, 'z')
    );
    world.host.emit(CHAT, { type: 'chat/turnsLoaded', turns: older });
    await settle();
    expect(within(log()).getAllByRole('article')).toHaveLength(42);
    expect(within(log()).getByText('fifty').closest('article')).toBe(first);
    expect(first?.getAttribute('aria-label')).toBe('Turn 41');
  });

  it('leaves a reader who went up alone, and says how much is new', async () => {
    const { world, settle } = await showChat({ turns: [turn('t1', 'a', 'b')] });
    Object.defineProperty(log(), 'scrollHeight', { value: 2000 });
    Object.defineProperty(log(), 'clientHeight', { value: 400, configurable: true });
    log().scrollTop = 100;
    // the box has its size by now; what follows is the reader
    fireEvent.scroll(log());
    Object.defineProperty(log(), 'clientHeight', { value: 0, configurable: true });
    await act(async () => void fireEvent.scroll(log()));
    world.host.emit(CHAT, started('t2'));
    world.host.emit(CHAT, {
      type: 'chat/responsePart',
      turnId: 't2',
      part: { kind: 'markdown', id: 'p', content: 'new' }
    });
    await settle();
    expect(log().scrollTop).toBe(100);
    fireEvent.click(screen.getByRole('button', { name: '1 new' }));
    await settle();
    expect(log().scrollTop).toBe(2000);
    expect(screen.queryByRole('button', { name: '1 new' })).toBeNull();
  });

  it('names who said it when it was somebody else', async () => {
    const message = {
      text: 'From Mia',
      origin: { kind: 'user' as const },
      _meta: { 'jupyter-ahp.sender': 'user:mia', 'jupyter-ahp.name': 'Mia' }
    };
    await showChat({ turns: [turn('t1', '', 'Yes.', { message })] });
    expect(within(log()).getByRole('heading', { level: 2 }).textContent).toBe('Mia said');
  });

  it('shows what waits for the connection, lets it be changed, and sends it once when it is back', async () => {
    const { world, settle, sent } = await showChat({ turns: [turn('t1', 'a', 'b')] });
    world.accepting = false;
    await act(async () => world.socket.drop());
    await act(async () => world.clock.advance(40_000));
    await settle();
    await act(async () => new Promise(resolve => setTimeout(resolve, 1600)));
    expect(screen.getByText(/No connection to the server/)).toBeTruthy();
    expect(box().placeholder).toBe('Ask. It will be sent later');
    fireEvent.change(box(), { target: { value: 'Later' } });
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    fireEvent.change(box(), { target: { value: 'Then this' } });
    fireEvent.keyDown(box(), { key: 'Enter' });
    await settle();
    expect(screen.getAllByText('Goes when the connection is back')).toHaveLength(2);
    expect(screen.getByText('2 waiting')).toBeTruthy();
    expect(within(log()).queryByText('Later')).toBeNull();

    fireEvent.click(screen.getAllByRole('button', { name: 'Edit' })[0]);
    const edited = screen.getByRole('textbox', { name: 'Waiting message' });
    fireEvent.change(edited, { target: { value: 'Much later' } });
    fireEvent.keyDown(edited, { key: 'Enter' });
    await settle();
    fireEvent.click(screen.getAllByRole('button', { name: 'Remove' })[1]);
    await settle();
    expect(screen.queryByText('Then this')).toBeNull();

    world.accepting = true;
    await act(async () => world.clock.advance(60_000));
    await settle();
    expect(
      sent('chat/pendingMessageSet').map(action => (action['message'] as { text: string }).text)
    ).toEqual(['Much later']);
    expect(sent('chat/pendingMessageRemoved')).toEqual([]);
    const state = world.host.states.get(CHAT) as ChatState;
    expect(state.queuedMessages?.map(({ message }) => message.text)).toEqual(['Much later']);
  });

  it('starts from a draft of one’s own, and shows another person’s above the box', async () => {
    const draft = (sender: string) => ({
      text: 'half a thought',
      origin: { kind: 'user' as const },
      _meta: { 'jupyter-ahp.sender': sender, 'jupyter-ahp.name': 'Mia' }
    });
    const me = (
      world: Parameters<NonNullable<Parameters<typeof showChat>[1]>['set'] & object>[0]
    ): void => {
      world.host.answers['initialize'] = (params, socket) => {
        socket.clientId = params['clientId'];
        world.host.clients.set(params['clientId'], new Map());
        const snapshots = (params['initialSubscriptions'] as string[]).map(uri =>
          world.host.snapshot(uri)
        );
        return {
          result: {
            protocolVersion: '1.0.0',
            serverSeq: world.host.seq,
            snapshots,
            _meta: { 'jupyter-ahp.principal': 'user:ana' }
          }
        };
      };
    };
    const mine = await showChat({ draft: draft('user:ana') }, { set: me });
    expect(box().value).toBe('half a thought');
    mine.unmount();
    await showChat({ draft: draft('user:mia') }, { set: me });
    expect(box().value).toBe('');
    expect(screen.getByText('Mia').closest('.ahp-Strip')?.textContent).toContain('half a thought');
  });

  it('shares what is typed as a draft, once it settles', async () => {
    const { settle, sent } = await showChat();
    fireEvent.change(box(), { target: { value: 'a' } });
    fireEvent.change(box(), { target: { value: 'ab' } });
    await act(async () => new Promise(resolve => setTimeout(resolve, 500)));
    await settle();
    expect(
      sent('chat/draftChanged').map(action => (action['draft'] as { text: string }).text)
    ).toEqual(['ab']);
  });

  it('goes turn by turn with the keys, and copies', async () => {
    const { host } = await showChat({ turns: [turn('t1', 'a', 'one'), turn('t2', 'b', 'two')] });
    log().focus();
    fireEvent.keyDown(log(), { key: 'k' });
    expect(document.activeElement?.getAttribute('aria-label')).toBe('Turn 2');
    fireEvent.keyDown(document.activeElement!, { key: 'ArrowUp' });
    expect(document.activeElement?.getAttribute('aria-label')).toBe('Turn 1');
    await act(async () => void fireEvent.keyDown(document.activeElement!, { key: 'c' }));
    expect(host.copied).toEqual(['one']);
    fireEvent.keyDown(document.activeElement!, { key: 'Escape' });
    expect(document.activeElement).toBe(log());
  });

  it('asks before a tool runs, shows all of it, and sends the chosen answer', async () => {
    const { world, settle, sent } = await showChat();
    world.host.emit(CHAT, started('t1'));
    world.host.emit(CHAT, {
      type: 'chat/toolCallStart',
      turnId: 't1',
      toolCallId: 'call',
      toolName: 'shell',
      displayName: 'Shell'
    });
    world.host.emit(CHAT, {
      type: 'chat/toolCallReady',
      turnId: 't1',
      toolCallId: 'call',
      invocationMessage: 'Run it',
      confirmationTitle: 'Allow this command?',
      toolInput: 'rm -r build \u202e',
      options: [
        { id: 'once', label: 'Allow once', kind: 'approve' },
        { id: 'no', label: 'Deny…', kind: 'deny' }
      ]
    });
    await settle();
    const card = screen.getByRole('group', { name: 'Allow this command?' });
    expect(card.textContent).toContain('rm -r build ‹U+202E›');
    const allow = within(card).getByRole('button', { name: /Allow once/ });
    allow.focus();
    fireEvent.keyDown(allow, { key: '1' });
    await settle();
    expect(sent('chat/toolCallConfirmed')).toEqual([
      {
        type: 'chat/toolCallConfirmed',
        turnId: 't1',
        toolCallId: 'call',
        selectedOptionId: 'once',
        approved: true,
        confirmed: 'user-action'
      }
    ]);
    await act(async () => new Promise(resolve => setTimeout(resolve, 30)));
    expect(document.activeElement).toBe(box());
  });

  it('asks a question as a form, and does not take it without what is required', async () => {
    const { world, settle, sent } = await showChat();
    world.host.emit(CHAT, started('t1'));
    world.host.emit(CHAT, {
      type: 'chat/inputRequested',
      request: {
        id: 'q',
        message: 'How should I score it?',
        questions: [
          {
            id: 'metric',
            kind: 'single-select',
            message: 'Metric',
            required: true,
            options: [
              { id: 'auc', label: 'AUC' },
              { id: 'acc', label: 'Accuracy' }
            ]
          }
        ]
      }
    });
    await settle();
    const card = screen.getByRole('group', { name: 'How should I score it?' });
    fireEvent.click(within(card).getByRole('button', { name: 'Answer' }));
    expect(within(card).getByRole('alert').textContent).toContain('Metric');
    fireEvent.click(within(card).getByRole('radio', { name: 'AUC' }));
    fireEvent.click(within(card).getByRole('button', { name: 'Answer' }));
    await settle();
    expect(sent('chat/inputCompleted')).toEqual([
      {
        type: 'chat/inputCompleted',
        requestId: 'q',
        response: 'accept',
        answers: { metric: { state: 'submitted', value: { kind: 'selected', value: 'auc' } } }
      }
    ]);
  });

  it('says that a chat is not there any more, rather than showing an empty one', async () => {
    await showChat({}, { set: world => void world.host.states.delete(CHAT) });
    expect(screen.getByText('This chat is not on this server any more.')).toBeTruthy();
    expect(screen.queryByRole('textbox')).toBeNull();
  });

  it('marks as read what is in front of the reader, once, whatever the host says to it', async () => {
    const { settle, sent } = await showChat(
      { status: 1, turns: [turn('t1', 'a', 'b')] },
      {
        set: world =>
          (world.host.refuses = (_, action) =>
            action.type.endsWith('isReadChanged') ? 'no' : undefined)
      }
    );
    await settle();
    await settle();
    expect(sent('chat/isReadChanged')).toHaveLength(1);
    expect(sent('session/isReadChanged')).toHaveLength(1);
    expect(SESSION).toBeTruthy();
  });
});
