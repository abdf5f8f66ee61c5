import { Widget } from '@lumino/widgets';
import { act } from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ROOT } from '../../ahp';
import { World } from '../../ahp/__tests__/world';
import {
  ASSISTANT,
  browser,
  CHAT,
  chatState,
  leave,
  plainHost,
  SESSION,
  sessionState,
  turn
} from '../../view/__tests__/stage';
import { CHAT_MIME, CellChat, showChatsInCells } from '../cellChat';

vi.hoisted(() => {
  // Lumino's drag and drop asks for it when it is loaded; jsdom has none
  (globalThis as Record<string, unknown>)['DragEvent'] ??= class extends Event {};
});

beforeEach(browser);
afterEach(async () => {
  await act(async () => views.splice(0).forEach(view => view.dispose()));
  leave();
});

const views: CellChat[] = [];
const sanitizer = { sanitize: (html: string) => html.replace(/<script>.*<\/script>/, '') };

async function cell(data: Record<string, unknown>) {
  const world = new World();
  const chat = chatState({ turns: [turn('t1', 'Is it there?', 'It is there.')] });
  world.host.states.set(ROOT, { agents: [ASSISTANT] });
  world.host.states.set(CHAT, chat);
  world.host.states.set(SESSION, sessionState(chat));
  await world.start();
  const factories: { rank: number; safe: boolean; make: () => CellChat }[] = [];
  showChatsInCells(
    {
      addFactory: (
        factory: { safe: boolean; createRenderer: (options: unknown) => CellChat },
        rank: number
      ) =>
        factories.push({
          rank,
          safe: factory.safe,
          make: () => factory.createRenderer({ sanitizer })
        })
    } as never,
    { connect: () => world.store, host: plainHost() }
  );
  const { make, ...registered } = factories[0]!;
  const view = make();
  views.push(view);
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 3; round++) {
      await act(async () => {
        await world.settle();
        world.frame();
        await world.settle();
      });
    }
  };
  await act(async () => view.renderModel({ data } as never));
  Widget.attach(view, document.body);
  await settle();
  return { world, view, registered, settle, text: () => view.node.textContent };
}

const asked = (world: World, method: string): unknown[] =>
  world.sockets
    .flatMap(socket => socket.requests(method))
    .map(message => message['params'].channel as unknown);

describe('a chat in an output', () => {
  const bundle = { [CHAT_MIME]: { chat: CHAT, session: SESSION, height: 500 } };

  it('is preferred to the widget, trusted or not', async () => {
    const { registered } = await cell(bundle);
    expect(registered).toEqual({ rank: -20, safe: true });
  });

  it('is the chat itself, in its height, with the keys of the notebook kept off', async () => {
    const { view, text } = await cell(bundle);
    expect(text()).toContain('It is there.');
    expect(view.node.querySelector<HTMLElement>('.ahp-Widget')?.style.height).toBe('500px');
    expect(
      view.node.querySelector('textarea')?.closest('[data-lm-suppress-shortcuts]')
    ).toBeTruthy();
  });

  it('stays what it is while it is off the page, and lets go when it is disposed of', async () => {
    const { view, world, settle } = await cell(bundle);
    const box = view.node.querySelector('textarea');
    const log = view.node.querySelector('[role="log"]')!;
    log.scrollTop = 70;
    Widget.detach(view);
    log.scrollTop = 0; // as a browser does
    await settle();
    Widget.attach(view, document.body);
    await settle();
    expect(view.node.querySelector('textarea')).toBe(box);
    expect(log.scrollTop).toBe(70);
    expect(asked(world, 'unsubscribe')).toEqual([]);
    await act(async () => view.dispose());
    world.clock.advance(6_000);
    expect(view.node.textContent).toBe('');
    expect(asked(world, 'unsubscribe')).toContain(CHAT);
  });

  it('is what the notebook kept, sanitised, when the server does not have it, and stays so', async () => {
    const { view, world, settle, text } = await cell({
      [CHAT_MIME]: { chat: 'ahp-chat:/elsewhere' },
      'text/html': '<b>Once</b><script>1</script><img src="https://there.example/x.png">'
    });
    const kept = 'This chat is not on this server. Here is what the notebook has kept of it.Once';
    expect(text()).toContain(kept);
    expect(view.node.querySelector('script, img')).toBeNull();
    const before = asked(world, 'subscribe').length;
    world.clock.advance(20_000);
    await settle();
    expect(text()).toContain(kept);
    expect(asked(world, 'subscribe').length).toBe(before);
  });

  it.each([null, {}, { chat: 7, height: 'tall' }])('bears with %j in a notebook', async said => {
    const { view, text } = await cell({ [CHAT_MIME]: said, 'text/html': '<b>Kept</b>' });
    expect(text()).toContain('Kept');
    expect(view.node.querySelector<HTMLElement>('.ahp-Widget')?.style.height).toBe('400px');
  });
});
