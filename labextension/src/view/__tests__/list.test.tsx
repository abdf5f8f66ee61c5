import { act, fireEvent, screen, within } from '@testing-library/react';
import React, { useState } from 'react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ROOT, type SessionSummary } from '../../ahp';
import { ChatsList } from '../ChatsList';
import { groups, matching } from '../sessions';
import { ASSISTANT, browser, chatState, greets, leave, sessionState, show, summary } from './stage';

beforeEach(browser);
afterEach(leave);

function List(): React.ReactElement {
  const [choosing, setChoosing] = useState(false);
  return <ChatsList choosing={choosing} onChoosing={setChoosing} />;
}

const listed = (items: readonly SessionSummary[]) =>
  show(<List />, world => (world.host.sessionPages = [{ items }]));

const NOW = new Date(2026, 11, 1, 12, 0, 0);
const at = (hour: number, day = 1): string => new Date(2026, 11, day, hour).toISOString();

describe('the order of the list', () => {
  it('puts first what needs the reader, then what runs, then the rest by day', () => {
    const items = [
      summary('earlier', { modifiedAt: new Date(2026, 10, 30, 23).toISOString() }),
      summary('failed', { modifiedAt: at(9), status: 2 | 32 }),
      summary('running', { modifiedAt: at(8), status: 8 | 32 }),
      summary('asks', { modifiedAt: at(7), status: 24 }),
      summary('today', { modifiedAt: at(1) })
    ];
    expect(
      groups(items, NOW).map(({ name, items: found }) => [name, found.map(each => each.title)])
    ).toEqual([
      ['needs', ['Chat asks']],
      ['running', ['Chat running']],
      ['today', ['Chat failed', 'Chat today']],
      ['earlier', ['Chat earlier']]
    ]);
  });

  it('finds all the words of a search, in any order and case, in the titles of all its chats', () => {
    const items = [
      summary('1', { title: 'Port the plots to altair' }),
      summary('2', { title: 'Thesis', chats: [{ resource: 'ahp-chat:/x', title: 'Altair plots' }] })
    ];
    expect(matching(items, 'PLOTS altair').length).toBe(2);
    expect(matching(items, 'altair port').map(each => each.title)).toEqual([
      'Port the plots to altair'
    ]);
  });
});

describe('the list of chats', () => {
  it('says what one can do where there is no chat yet', async () => {
    const { host } = await show(<List />, world => {
      world.host.states.set(ROOT, {
        agents: [
          { ...ASSISTANT, _meta: { 'jupyter-ahp.note': 'A tiny model' } },
          {
            ...ASSISTANT,
            provider: 'claude',
            displayName: 'Claude',
            _meta: {
              'jupyter-ahp.unavailable': {
                reason: 'Claude is not signed in.',
                fix: 'Run `claude login`.'
              }
            }
          }
        ]
      });
    });
    expect(
      screen.getByText(/A small model is built in, so you can try it now/).textContent
    ).toContain('It is tiny and often wrong.');
    expect(screen.getByText(/Claude is not signed in/).textContent).toContain(
      'Run `claude login`.'
    );
    fireEvent.click(screen.getByRole('button', { name: 'New chat with Assistant' }));
    expect(host.started).toEqual(['assistant']);
  });

  it('offers the agents of a new chat, and says of one that cannot be used why', async () => {
    const { host } = await show(<List />, world => {
      world.host.states.set(ROOT, {
        agents: [
          {
            ...ASSISTANT,
            provider: 'claude',
            displayName: 'Claude',
            _meta: { 'jupyter-ahp.unavailable': { reason: 'Not found.', fix: 'Install it.' } }
          },
          ASSISTANT
        ]
      });
      world.host.sessionPages = [{ items: [summary('1')] }];
    });
    fireEvent.click(screen.getByRole('button', { name: 'New' }));
    const dialog = screen.getByRole('dialog', { name: 'New chat' });
    const claude = within(dialog).getByRole('radio', { name: /Claude.*Not found\..*Install it\./ });
    expect((claude as HTMLInputElement).disabled).toBe(true);
    expect(
      (within(dialog).getByRole('radio', { name: /Assistant/ }) as HTMLInputElement).checked
    ).toBe(true);
    fireEvent.click(within(dialog).getByRole('button', { name: 'Start chat' }));
    expect(host.started).toEqual(['assistant']);
    expect(screen.queryByRole('dialog')).toBeNull();
  });

  it('opens a chat, renames, marks, archives with a way back, and deletes when one is sure', async () => {
    const { host, world, settle, sent } = await listed([summary('1', { title: 'One', status: 1 })]);
    world.host.states.set('ahp-session:/1', {
      chats: [],
      activeClients: [],
      lifecycle: 'ready',
      provider: 'assistant',
      title: 'One',
      status: 1
    });
    const row = screen.getByRole('link', { name: /^One ?, unread$/ });
    fireEvent.click(row);
    expect(host.opened).toEqual([[{ chat: 'ahp-chat:/1', session: 'ahp-session:/1' }, 'side']]);

    fireEvent.keyDown(row, { key: 'F2' });
    const field = screen.getByRole('textbox', { name: 'Title' });
    fireEvent.change(field, { target: { value: 'Two' } });
    fireEvent.keyDown(field, { key: 'Enter' });
    fireEvent.keyDown(screen.getByRole('link'), { key: 'u' });
    fireEvent.keyDown(screen.getByRole('link'), { key: 'e' });
    await settle();
    expect(sent('session/titleChanged')).toEqual([{ type: 'session/titleChanged', title: 'Two' }]);
    expect(sent('session/isReadChanged')).toEqual([
      { type: 'session/isReadChanged', isRead: true }
    ]);
    expect(screen.getByText('Archived “One”.')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Undo' }));
    await settle();
    expect(sent('session/isArchivedChanged').map(action => action['isArchived'])).toEqual([
      true,
      false
    ]);

    await act(async () => void fireEvent.keyDown(screen.getByRole('link'), { key: 'Delete' }));
    await settle();
    expect(
      world.socket.requests('disposeSession').map(message => message['params'].channel)
    ).toEqual(['ahp-session:/1']);
  });

  it('renames from the menu, and takes letters for keys of the row nowhere but on the row', async () => {
    const { world, settle, sent } = await listed([summary('1', { title: 'One' })]);
    world.host.states.set('ahp-session:/1', sessionState(chatState()));
    const more = screen.getByRole('button', { name: 'More' });
    more.focus();
    fireEvent.click(more);
    fireEvent.click(screen.getByRole('menuitem', { name: /^Rename/ }));
    await settle();
    const field = screen.getByRole('textbox', { name: 'Title' });
    expect(document.activeElement).toBe(field);
    fireEvent.change(field, { target: { value: 'Two' } });
    fireEvent.keyDown(field, { key: 'Enter' });
    await settle();
    expect(sent('session/titleChanged')).toEqual([{ type: 'session/titleChanged', title: 'Two' }]);
    expect(document.activeElement).toBe(screen.getByRole('link', { name: 'One' }));

    for (const button of [more, screen.getByRole('button', { name: 'Archive' })]) {
      button.focus();
      fireEvent.keyDown(button, { key: 'e' });
      fireEvent.keyDown(button, { key: 'u' });
    }
    // a menu that is left alone gives the focus back
    more.focus();
    fireEvent.click(more);
    fireEvent.keyDown(screen.getByRole('menuitem', { name: /^Rename/ }), { key: 'e' });
    fireEvent.keyDown(screen.getByRole('menuitem', { name: /^Rename/ }), { key: 'Escape' });
    await settle();
    expect(document.activeElement).toBe(more);
    expect(sent('session/isArchivedChanged')).toEqual([]);
    expect(sent('session/isReadChanged')).toEqual([]);
  });

  it('never shows an error as an empty list', async () => {
    await show(<List />, world => {
      world.host.answers['listSessions'] = () => ({
        error: { code: -32603, message: 'The disk is full' }
      });
    });
    expect(screen.getByRole('alert').textContent).toContain('The list of chats could not be read.');
    expect(screen.getByRole('alert').textContent).toContain('The disk is full');
    expect(screen.queryByText('Ask about your notebook')).toBeNull();
  });

  it('shows the chats of a session under it, without its workers, and does to each what it is its own', async () => {
    const chats: SessionSummary['chats'] = [
      { resource: 'ahp-chat:/1', title: 'Outline', status: 33 },
      {
        resource: 'ahp-chat:/fork',
        title: 'Shorter introduction',
        status: 33,
        origin: { kind: 'fork', chat: 'ahp-chat:/1', turnId: 't' }
      },
      {
        resource: 'ahp-chat:/worker',
        title: 'Worker',
        origin: { kind: 'tool', chat: 'ahp-chat:/1', toolCallId: 'c' }
      },
      { resource: 'ahp-chat:/old', title: 'Archived', status: 33 + 64 }
    ];
    const { host, world, settle, sent } = await listed([summary('1', { title: 'Thesis', chats })]);
    for (const chat of chats) {
      world.host.states.set(chat.resource, chatState(chat));
    }
    const titles = (): (string | null)[] =>
      screen.getAllByRole('link').map(link => link.textContent);
    expect(titles()).toEqual(['Thesis', 'Outline', 'Shorter introduction']);
    expect(screen.getByText('2 chats')).toBeTruthy();
    fireEvent.click(screen.getByRole('link', { name: 'Shorter introduction' }));
    expect(host.opened).toEqual([[{ chat: 'ahp-chat:/fork', session: 'ahp-session:/1' }, 'side']]);

    const fork = screen.getByRole('link', { name: 'Shorter introduction' });
    fireEvent.keyDown(fork, { key: 'F2' });
    const field = screen.getByRole('textbox', { name: 'Title' });
    fireEvent.change(field, { target: { value: 'Short' } });
    fireEvent.keyDown(field, { key: 'Enter' });
    fireEvent.keyDown(screen.getByRole('link', { name: 'Shorter introduction' }), { key: 'e' });
    await settle();
    expect(sent('session/titleChanged')).toEqual([
      { type: 'session/titleChanged', title: 'Short' }
    ]);
    expect(screen.getByText('Archived “Shorter introduction”.')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Undo' }));
    await settle();
    expect(sent('chat/isArchivedChanged').map(action => action['isArchived'])).toEqual([
      true,
      false
    ]);
    const dispatched = world.socket.requests('dispatchAction').map(({ params }) => params.channel);
    expect(new Set(dispatched)).toEqual(new Set(['ahp-chat:/fork']));
    await act(
      async () =>
        void fireEvent.keyDown(screen.getByRole('link', { name: 'Shorter introduction' }), {
          key: 'Delete'
        })
    );
    await settle();
    expect(world.socket.requests('disposeChat').map(({ params }) => params.channel)).toEqual([
      'ahp-chat:/fork'
    ]);
    // the session's own chat goes with the session
    fireEvent.keyDown(screen.getByRole('link', { name: 'Outline' }), { key: 'Delete' });
    await settle();
    expect(world.socket.requests('disposeChat')).toHaveLength(1);

    fireEvent.click(screen.getByRole('button', { name: 'Hide the 2 chats of Thesis' }));
    expect(titles()).toEqual(['Thesis']);

    // a fork is found by its own title, and it is the fork that opens
    const search = (value: string): void =>
      void fireEvent.change(screen.getByRole('searchbox'), { target: { value } });
    search('introduction SHORTER');
    expect(titles()).toEqual(['Thesis', 'Shorter introduction']);
    fireEvent.click(screen.getByRole('link', { name: 'Shorter introduction' }));
    expect(host.opened.at(-1)).toEqual([
      { chat: 'ahp-chat:/fork', session: 'ahp-session:/1' },
      'side'
    ]);
    search('thesis');
    expect(titles()).toEqual(['Thesis', 'Outline', 'Shorter introduction']);
    search('worker');
    expect(screen.queryByRole('link')).toBeNull();
  });

  it('U12 moves a chat up and down by keys and menu, to another session, and to one of its own', async () => {
    const chats: SessionSummary['chats'] = [
      { resource: 'ahp-chat:/1', title: 'Outline', status: 33 },
      { resource: 'ahp-chat:/a', title: 'First', status: 33, movable: true },
      { resource: 'ahp-chat:/b', title: 'Second', status: 33, movable: true }
    ];
    const target: SessionSummary['chats'] = [{ resource: 'ahp-chat:/t', title: 'Target chat' }];
    const { world, settle } = await listed([
      summary('1', { title: 'Thesis', chats }),
      summary('2', { title: 'Target', chats: target }),
      summary('3', { title: 'Other agent', provider: 'echo' })
    ]);
    let refusal: string | undefined;
    world.host.answers['moveChat'] = () =>
      refusal
        ? { error: { code: -32004, message: refusal } }
        : { result: { session: 'ahp-session:/2' } };
    const moved = (): unknown[] =>
      world.socket.requests('moveChat').map(({ params }) => [params.channel, params.destination]);
    const session = 'ahp-session:/1';
    const second = (): HTMLElement => screen.getByRole('link', { name: 'Second' });
    fireEvent.keyDown(second(), { key: 'ArrowUp', altKey: true });
    await settle();
    expect(moved()).toEqual([['ahp-chat:/b', { kind: 'session', session, after: 'ahp-chat:/1' }]]);
    const menu = (title: string): void =>
      void fireEvent.click(screen.getByRole('button', { name: `More for ${title}` }));
    menu('First');
    fireEvent.click(screen.getByRole('menuitem', { name: /^Move down/ }));
    await settle();
    expect(moved().at(-1)).toEqual([
      'ahp-chat:/a',
      { kind: 'session', session, after: 'ahp-chat:/b' }
    ]);

    menu('Second');
    fireEvent.click(screen.getByRole('menuitem', { name: 'Move to another session…' }));
    const dialog = screen.getByRole('dialog', { name: 'Move “Second”' });
    expect(within(dialog).getAllByRole('radio')).toHaveLength(2); // no other agent's
    fireEvent.click(within(dialog).getByRole('radio', { name: 'Target' }));
    fireEvent.click(within(dialog).getByRole('button', { name: 'Move' }));
    await settle();
    expect(moved().at(-1)).toEqual([
      'ahp-chat:/b',
      { kind: 'session', session: 'ahp-session:/2', after: 'ahp-chat:/t' }
    ]);

    refusal = 'A turn is running in this chat.';
    menu('Second');
    fireEvent.click(screen.getByRole('menuitem', { name: 'Move to another session…' }));
    fireEvent.click(screen.getByRole('button', { name: 'Move' }));
    await settle();
    expect(moved().at(-1)).toEqual(['ahp-chat:/b', { kind: 'newSession' }]);
    expect(screen.getByRole('alert').textContent).toContain(
      'Not moved: A turn is running in this chat.'
    );
    // the session's own chat stays where it is
    menu('Outline');
    expect(screen.queryByRole('menuitem', { name: /^Move/ })).toBeNull();
  });

  it('has the focus on the next row when the one with the focus goes', async () => {
    const { world, settle } = await listed(['1', '2', '3'].map(id => summary(id)));
    const link = (id: string): HTMLElement => screen.getByRole('link', { name: `Chat ${id}` });
    const remove = async (id: string): Promise<void> => {
      world.host.notify('root/sessionRemoved', { session: `ahp-session:/${id}` });
      await settle();
    };
    link('2').focus();
    await remove('2');
    expect(document.activeElement).toBe(link('3'));
    await remove('3');
    expect(document.activeElement).toBe(link('1'));
    link('1').blur();
    await remove('1');
    expect(document.activeElement).toBe(document.body);
  });

  it('says which chat could not be read, and that nothing was written over it', async () => {
    await show(<List />, world => {
      world.host.sessionPages = [
        {
          items: [],
          _meta: {
            'jupyter-ahp.unreadable': [{ id: '9f2c', path: '/chats/9f2c', reason: 'No JSON.' }]
          }
        }
      ];
    });
    const alert = screen.getByRole('alert');
    expect(alert.textContent).toContain('One chat could not be read. Nothing was written over it.');
    expect(alert.textContent).toContain('No JSON.');
    expect(alert.textContent).toContain('/chats/9f2c');
    expect(screen.queryByText('Ask about your notebook')).toBeNull();
  });

  it('offers nothing that one may not do', async () => {
    await show(<List />, world => {
      greets(world, { 'jupyter-ahp.grants': ['session:read', 'chat:turns'] });
      world.host.sessionPages = [{ items: [summary('1', { title: 'One' })] }];
    });
    expect(screen.queryByRole('button', { name: 'New' })).toBeNull();
    expect(screen.queryByRole('button', { name: 'Archive' })).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'More' }));
    expect(screen.getAllByRole('menuitem').map(item => item.textContent)).toEqual([
      'Open in the main area',
      'Open in the side panel'
    ]);
    fireEvent.keyDown(screen.getByRole('link', { name: 'One' }), { key: 'F2' });
    expect(screen.queryByRole('textbox', { name: 'Title' })).toBeNull();
  });

  it('takes a thousand sessions, and draws them a page at a time', async () => {
    const items = Array.from({ length: 1000 }, (_, index) =>
      summary(String(index), { modifiedAt: new Date(2026, 0, 1, 0, index).toISOString() })
    );
    await listed(items);
    expect(screen.getAllByRole('link')).toHaveLength(200);
    fireEvent.click(screen.getByRole('button', { name: 'Show 200 more' }));
    expect(screen.getAllByRole('link')).toHaveLength(400);
    fireEvent.change(screen.getByRole('searchbox'), { target: { value: 'Chat 999' } });
    expect(screen.getAllByRole('link').map(link => link.textContent)).toEqual(['Chat 999']);
    fireEvent.change(screen.getByRole('searchbox'), { target: { value: 'levenshtein' } });
    expect(screen.getByText(/No chat has “levenshtein”\./).textContent).toContain(
      'Archived chats were not searched.'
    );
  });
});
